#!/bin/sh
# Makes sure the browser tests find a Chromium: Debian's package, installed here where it is missing and may be.
# BROWSER_TESTS=0 leaves these tests out on purpose; otherwise a missing browser is an error, never a silent skip.
set -eu

[ "${BROWSER_TESTS:-}" = 0 ] && exit 0
[ -x /usr/bin/chromium ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Debian's chromium for the browser tests ..."
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    if apt-get update -q >"$log" 2>&1 && apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core >>"$log" 2>&1; then
        rm -f "$log"
        exit 0
    fi
    tail -n 20 "$log" >&2
fi
echo "The browser tests need Chromium: install Debian's package chromium (/usr/bin/chromium)," \
    "or leave these tests out with: make test BROWSER_TESTS=0" >&2
exit 1
