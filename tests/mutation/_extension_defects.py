"""Defects in what extensions of other packages are promised, each with the tests that have to notice."""

from __future__ import annotations

from tests.mutation._suites import Defect

PROGRAM = ("tests/pipeline/test_program_text.py",)
STORES = ("tests/unit/test_extension_stores.py",)
MISTAKES = ("tests/unit/test_extension_mistakes.py",)

EXTENSIONS = (
    # a module that an extension imports may change without a new run of a sweep
    Defect("pipeline/program_text.py", "                waiting.append(imported)\n",
        "                pass\n", by=PROGRAM),
    # ... and one of its distribution that it imports by a computed name
    Defect("pipeline/program_text.py", ".union(*map(_modules_of, offering.values()))", "", by=PROGRAM),
    # acknowledged events vanish in a page that is empty, or has a gap
    Defect("store/checked.py", "        if missing:\n", "        if False:\n", by=STORES),
    # a commit that nothing awaits counts as kept
    Defect("store/checked.py", "        if inspect.iscoroutine(value):\n",
        "        if inspect.iscoroutine(value):\n            return value.close()\n", by=STORES),
    # an error of a reader's thread is lost
    Defect("runtime/disk_executor.py", "    except Exception as error:  # the machine waits for an",
        "    except StoreFullError as error:  # the machine waits for an", by=(
            "tests/unit/runtime/test_disk_executor.py",)),
    # an object of one package breaks the others
    Defect("extensions.py", "kinds and (wrong := wrong_field(each)):",
        "False and (wrong := wrong_field(each)):", by=MISTAKES),
    # the wrong one of two classes of one name is blamed
    Defect("extensions.py", "                return found[:1]\n", "                break\n", by=MISTAKES),
    # brokers that never link are accepted
    Defect("protocol/overlay/static.py", "    joins: ClassVar[bool] = False",
        "    joins: ClassVar[bool] = True", by=MISTAKES),
    # a gateway that does not close holds up its broker
    Defect("gateway/listeners.py", "asyncio.wait({closing}, timeout=seconds)",
        "asyncio.wait({closing}, timeout=7200)", by=MISTAKES),
)  # fmt: skip
