"""A host as ZeroGPU is one, for tests: a decorated generator runs in a forked process, arguments and results are pickled.

FOVEA_TEST_HOST: ``quota`` refuses every piece of work, ``abort`` ends it after three results, as the real package does.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys

import gradio as gr

fork = multiprocessing.get_context("fork")
assert "torch" not in sys.modules, "the host must come before torch"


def refused(title: str, message: str) -> gr.Error:
    return gr.Error(message, title=title, print_exception=False)


def GPU(task=None, *, duration=None):
    if task is None:
        return lambda task: GPU(task, duration=duration)

    def lent(*arguments):
        temper = os.environ.get("FOVEA_TEST_HOST")
        if temper == "quota":
            raise refused("ZeroGPU quota exceeded", "You have exceeded your free ZeroGPU quota (60s requested vs. 3s left).")
        here, there = fork.Pipe(duplex=False)
        arguments = pickle.dumps(arguments)

        def child():
            here.close()
            try:
                for count, result in enumerate(task(*pickle.loads(arguments))):
                    if temper == "abort" and count == 3:
                        os._exit(1)
                    there.send(("result", result))
                there.send(("end", None))
            except Exception as error:
                there.send(("error", type(error).__name__))
            finally:
                there.close()
                os._exit(0)

        process = fork.Process(target=child, daemon=True)
        process.start()
        there.close()
        try:
            while True:
                try:
                    what, result = here.recv()
                except EOFError:
                    raise refused("ZeroGPU worker error", "GPU task aborted") from None
                if what == "end":
                    return
                if what == "error":
                    raise refused("ZeroGPU worker error", result)
                yield result
        finally:
            process.kill()
            process.join()

    return lent


def gradio_auto_wrap(task):
    """Gradio asks for it on a Space; without the host's wish nothing is wrapped."""
    return task
