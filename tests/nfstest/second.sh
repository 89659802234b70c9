#!/bin/sh
# second.sh: the second client of NFStest, which does what the first one says. Says `serving ADDRESS`.
[ "$PNFS" != off ] || find /lib/modules -name "*layout*" ! -type d -exec rm {} + # drivers, and nothing else has the word
mkdir -p /usr/bin && ln -sf /job/mount.sh /usr/local/bin/mount
address=$(ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
echo "serving $address"
exec python3 /job/remote.py serve 2222
