# SPDX-License-Identifier: Apache-2.0
"""Puts cases of the corpus to a live API server. As a program it records ``shows.yaml``: read the difference!"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import yaml

from support import corpus
from support.admission import refusal
from support.corpus import Case, as_kubectl, settled
from trainsnap_api.transport import Transport
from trainsnap_api.transport import resources as r

HEADER = """\
# SPDX-License-Identifier: Apache-2.0
# Recorded by support/corpus_run.py on a real API server: what a user of kubectl sees for each case. Do not edit.
"""
DOING = 'error when creating "STDIN": '
NAMESPACE = "corpus-recording"


async def refused(case: Case, admin: Transport, namespace: str) -> tuple[int, str, str]:
    """Status, message, and what kubectl makes of it."""
    obj = case.object(namespace)
    resource = r.by_kind(obj["apiVersion"], obj["kind"])
    assert resource is not None
    if case.change is None:
        error = await refusal(admin.create(resource, obj, dry_run=True))
        return error.status, error.message, as_kubectl(error, doing=DOING)
    await admin.create(resource, obj)
    error = await refusal(admin.merge_patch(resource, case.id, namespace, case.change))
    return error.status, error.message, as_kubectl(error, doing="")


def kubectl(case: Case, program: Path, kubeconfig: Path, namespace: str) -> str:
    """What kubectl prints to its error stream for the case."""
    command = [str(program), "--kubeconfig", str(kubeconfig), "create", "--dry-run=server", "-f", "-"]
    done = subprocess.run(command, input=case.file(namespace), capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    return done.stderr


async def record(kubeconfig: Path, program: Path) -> None:
    """Write ``shows.yaml``, and print every case whose verdict is not the wanted one."""
    shown: dict[str, str] = {}
    async with await Transport.connect(kubeconfig=kubeconfig, probe=True) as admin:
        await admin.create(r.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for runtime in corpus.runtimes(NAMESPACE):
            await admin.create(r.TRAINING_RUNTIME, runtime)
        for case in corpus.cases():
            try:
                if case.text is None:
                    status, message, text = await refused(case, admin, NAMESPACE)
                else:
                    text = message = await asyncio.to_thread(kubectl, case, program, kubeconfig, NAMESPACE)
                    status = case.code if isinstance(case.code, int) else 0
            except AssertionError as error:
                print(f"{case.id}: {error}")
                continue
            if (isinstance(case.code, int) and status != case.code) or case.want_path not in message:
                print(f"{case.id}: {status} instead of {case.code}, {case.want_path} in: {message[:300]}")
            shown[case.id] = settled(text, NAMESPACE)
    dumped = yaml.safe_dump(shown, allow_unicode=True, width=1000, default_style="|")
    corpus.SHOWS.write_text(HEADER + dumped, encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(record(Path(sys.argv[1]), Path(sys.argv[2])))
