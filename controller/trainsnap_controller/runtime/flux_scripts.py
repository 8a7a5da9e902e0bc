# SPDX-License-Identifier: Apache-2.0
"""The two shell scripts of a Flux job and the broker's configuration. Texts only; helper of the flux plugin.

``init.sh`` runs in the view image and leaves Flux in a volume; ``entrypoint.sh`` runs in the user's image, joins the
brokers and starts the user's command on the first of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template
from typing import Final


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the scripts must know. ``prefix`` is the part that all host names share; ``domain`` what follows them."""

    prefix: str
    domain: str
    nodes: int
    processes: int
    gpus: int
    network_device: str
    queue_policy: str


def init_script(cluster: Cluster) -> str:
    """Copies Flux into the shared volume and writes the brokers' configuration. May run twice."""
    hosts = f"{cluster.prefix}-[{_range(cluster.nodes)}]"
    return _INIT.substitute(
        hosts=hosts, device=cluster.network_device, policy=cluster.queue_policy, domain=cluster.domain
    )


def entrypoint(cluster: Cluster) -> str:
    """Starts a broker on every host, and the command, which is the script's arguments, on the first."""
    gpus = cluster.gpus > 0
    return _ENTRYPOINT.substitute(
        main=f"{cluster.prefix}-0",
        encode=f"--cores={_range(cluster.processes)}" + (f" --gpu={_range(cluster.gpus)}" if gpus else ""),
        flags=f"-N {cluster.nodes} -n {cluster.processes * cluster.nodes}" + (f" -g {cluster.gpus}" if gpus else ""),
    )


def _range(count: int) -> str:
    return "0" if count == 1 else f"0-{count - 1}"


_INIT: Final = Template("""\
#!/bin/bash
# Puts Flux and its configuration into the volume that the job's container mounts.
set -e
export PATH=/opt/view/bin:$$PATH
config=/mnt/flux/config
mkdir -p /opt/view/bin \\
    "$$config/etc/flux/system/cron.d" "$$config/etc/flux/config" "$$config/etc/curve" \\
    "$$config/var/lib/flux" "$$config/run/flux"

echo "$hosts" > "$$config/etc/flux/system/hostlist"

cat > "$$config/etc/flux/config/broker.toml" <<'BROKER'
[access]
allow-guest-user = true
allow-root-owner = true

[resource]
path = "/mnt/flux/config/etc/flux/system/R"

[bootstrap]
curve_cert = "/mnt/flux/config/etc/curve/curve.cert"
default_port = 8050
default_bind = "tcp://$device:%p"
default_connect = "tcp://%h.$domain:%p"
hosts = [
    { host = "$hosts" },
]

[archive]
dbpath = "/mnt/flux/config/var/lib/flux/job-archive.sqlite"
period = "1m"
busytimeout = "50s"

[sched-fluxion-qmanager]
queue-policy = "$policy"
BROKER
cat "$$config/etc/flux/config/broker.toml"

view=$$(ls -d /opt/views/._view/*/ | head -n 1)
mkdir -p /mnt/flux/view
cp -R "$$view." /mnt/flux/view/
cp -R /opt/software /mnt/flux/
touch /mnt/flux/flux-operator-done.txt
""")

_ENTRYPOINT: Final = Template("""\
#!/bin/bash
# Joins this host to the job's Flux instance; the first host also runs the command.
view=/mnt/flux/view
config=/mnt/flux/config
command="$$*"

# Behind the image's own programs, which must win.
export PATH=$$PATH:$$view/bin
mkdir -p /opt/software
cp -R /mnt/flux/software/* /opt/software/

library=$$(ls -d "$$view"/lib/python3* 2>/dev/null | head -n 1)
version=$$(basename "$$library")
ln -sf "$$view/bin/$$version" "$$view/bin/python3"
ln -sf "$$view/bin/$$version" "$$view/bin/python"
export PYTHONPATH=$$PYTHONPATH:$$library/site-packages
export FLUX_RC_EXTRA=$$view/etc/flux/rc1.d

cat > /mnt/flux/load-fluxion.sh <<'FLUXION'
#!/bin/bash
# Replaces the simple scheduler by Fluxion.
flux module remove sched-simple
flux module load sched-fluxion-resource
flux module load sched-fluxion-qmanager
FLUXION
cat > /mnt/flux/flux-view.sh <<VIEW
#!/bin/bash
# Source this in a shell of the container to talk to the instance.
export PATH=$$PATH
export PYTHONPATH=$$PYTHONPATH
export LD_LIBRARY_PATH=$$view/lib:$$LD_LIBRARY_PATH
export fluxsocket=local://$$config/run/flux/local
VIEW
chmod +x /mnt/flux/load-fluxion.sh /mnt/flux/flux-view.sh

cp /curve/curve.cert "$$config/etc/curve/curve.cert"
chmod go-r "$$config/etc/curve/curve.cert"
chown "$$(id -u)" "$$config/etc/curve/curve.cert"

hosts=$$(cat "$$config/etc/flux/system/hostlist")
flux R encode --hosts="$$hosts" $encode > "$$config/etc/flux/system/R"

export STATE_DIRECTORY=$$config/var/lib/flux
mkdir -p "$$STATE_DIRECTORY" /tmp/fluxout
options="-Scron.directory=$$config/etc/flux/system/cron.d -Stbon.fanout=256"
options="$$options -Srundir=$$config/run/flux -Slocal-uri=local://$$config/run/flux/local"
options="$$options -Sstatedir=$$STATE_DIRECTORY -Slog-stderr-level=0 -Slog-stderr-mode=local"

if [ "$$(hostname)" = "$main" ]; then
    if [ -z "$$command" ]; then
        flux broker --config-path "$$config/etc/flux/config" $$options
    else
        flux start -o --config "$$config/etc/flux/config" $$options flux run $flags $$command
    fi
    result=$$?
else
    until flux start -o --config "$$config/etc/flux/config" $$options; do
        echo "the broker ended; trying again in 15 seconds"
        sleep 15
    done
    result=0
fi
touch /mnt/flux/flux-operator-complete.txt
exit $$result
""")
