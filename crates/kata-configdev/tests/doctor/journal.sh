#!/bin/sh
# Writes entries through a journald of its own into the directory $1; needs a mount namespace of
# its own, too.
set -eu
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/log/journal
# Neither the machine's kernel log nor its audit is this test's.
printf '[Journal]\nReadKMsg=no\nAudit=no\nStorage=volatile\n' >/run/journald.conf
mount --bind /run/journald.conf /etc/systemd/journald.conf
"$2" >/dev/null 2>&1 &
until [ -S /run/systemd/journal/stdout ]; do
    kill -0 $!
    sleep 0.05
done
say() { # IDENTIFIER PRIORITY TEXT
    printf '%s\n' "$3" | systemd-cat -t "$1" -p "$2"
}
say kata err 'kata-configdev-qemu: sandbox 3f1c: failed to x: y'
say kata info 'level=error msg="failed to pull a.corp/x: refused" sandbox=3f1c'
say containerd info 'level=error msg="stopped" sandbox=3f1c'
say somebody err 'level=error msg="not of Kata" sandbox=3f1c'
journalctl --sync
kill $!
wait $! || true
cp -r /run/log/journal/. "$1"
