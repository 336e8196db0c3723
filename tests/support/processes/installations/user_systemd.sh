#!/bin/sh
# Runs a command beside a systemd of its own for one user: user_systemd.sh CGROUP COMMAND...
# In namespaces of its own for mounts and processes, so that everything ends with it. Needs root.
set -eu
cgroup=$1
shift
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/0 # systemd only runs where it seems to have booted the machine
chmod 700 /run/user/0
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$cgroup/init"
echo $$ >"/sys/fs/cgroup/$cgroup/init/cgroup.procs"
export XDG_RUNTIME_DIR=/run/user/0 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/0/bus
dbus-daemon --session --address="$DBUS_SESSION_BUS_ADDRESS" --nofork --nopidfile </dev/null >/dev/null 2>&1 &
/lib/systemd/systemd --user --log-target=null </dev/null >/dev/null 2>&1 &
tries=0
until systemctl --user show-environment >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { echo "systemd does not answer" >&2; exit 75; }
    sleep 0.1
done
"$@"
