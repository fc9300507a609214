"""The FOVEA explorer's page: ``python app.py``. The gallery opens at once; the model loads behind it."""

import argparse
import os
import threading

#: So long the model waits for the page's first visitor: both want the processor, and the gallery needs no model. Run waits for
#: nothing.
GALLERY_FIRST_S = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description="Open the FOVEA explorer.")
    parser.add_argument("--host", help="address to serve on; 0.0.0.0 lets other machines in (default: this machine only)")
    parser.add_argument("--port", type=int, help="port to serve on (default: the first free one from 7860)")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"], help="where the model runs")
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="T",
        help="offer this model on the page, too: a folder, a hub id as it lies in this machine's cache, or 'known' for all "
        "that `fovea_core targets` lists; may be given several times (on a Space: one for photographs)",
    )
    parser.add_argument(
        "--drafter", action="append", default=[], metavar="D", help="offer this folder or hub id as drafter wherever it fits"
    )
    parser.add_argument(
        "--dtype", default="auto", choices=["auto", "float32", "bfloat16", "float16"], help="of the weights of these models"
    )
    parser.add_argument(
        "--lab-runs",
        default="auto",
        choices=["auto", "on", "off"],
        help="offer to measure the Lab's studies anew, minutes of this machine (auto: where no other machine is let in)",
    )
    parser.add_argument("--offline", action="store_true", help="never ask the hub")
    parser.add_argument("--event-log", metavar="F", help="note in F when each event of a run was decided (for bench page)")
    parser.add_argument(
        "--prices", metavar="F", help="take prices of drafting from F, a result of bench builtin (for bench page)"
    )
    arguments = parser.parse_args()
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    if arguments.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"

    from app.stubs import no_stubs

    with no_stubs():
        from app.build import build_page, launch_page
    from app.loaded import load_builtin, read_prices
    from app.models import Models, offered
    from app.news import log_events
    from app.pages.lab import only_here
    from app.session import Session
    from fovea_core.targets.shelf import PHOTOS

    watch = log_events(arguments.event_log) if arguments.event_log else None
    models, offers, prices = None, offered, None
    if arguments.prices:
        try:
            prices = read_prices(arguments.prices)
        except ValueError as error:
            parser.error(str(error))
    targets = arguments.target or ([PHOTOS] if os.environ.get("SPACE_ID") else [])
    if targets:
        try:
            models = Models(targets, arguments.drafter, arguments.device, arguments.dtype)
        except ValueError as error:
            parser.error(str(error))
        offers = models.offers
    session = Session(lambda: load_builtin(arguments.device, prices), watch, offers)
    reruns = only_here(arguments.host) if arguments.lab_runs == "auto" else arguments.lab_runs == "on"
    page = build_page(session, models=models, reruns=reruns)
    launch_page(page, arguments.host, arguments.port)
    loading = threading.Timer(GALLERY_FIRST_S, session.start)
    loading.start()
    try:
        page.block_thread()
    finally:
        loading.cancel()
        session.close()


if __name__ == "__main__":
    main()
