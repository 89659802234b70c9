#!/bin/sh
# The Debian with programs that people use, in /host, and its servers (sourced, after common.sh).

program() { chroot /host "$@"; }
as_postgres() { program /usr/bin/setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
sql() { as_postgres /usr/lib/postgresql/15/bin/psql -h /tmp -qAt -c "$1" postgres; }

prepare_root() {
  for dir in tmp run mnt; do mount -t tmpfs -o mode=1777 tmpfs /host/$dir || fail "tmpfs"; done
  mount -t proc proc /host/proc || fail "proc"
  mount -t tmpfs -o mode=755 tmpfs /host/dev || fail "tmpfs"
  for node in null zero random urandom; do cp -a /dev/$node /host/dev || fail "/dev/$node"; done
  mkdir -p /host/dev/shm && chmod 1777 /host/dev/shm
  export PATH="$PATH:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/tmp LC_ALL=C
  export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' \
    GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a
}

mount_new() { # PORT
  mount_weft /mnt 4.2 "$1"
  mount --bind /mnt /host/mnt || fail "bind"
}

unmount_all() {
  unmount /host/mnt
  unmount /mnt
}

redis() { program redis-cli -s /tmp/redis.sock "$@"; }
redis_answers() { [ "$(redis ping 2>/dev/null)" = PONG ]; }

start_redis() {
  program redis-server --port 0 --unixsocket /tmp/redis.sock --dir /mnt/redis --save '' --appendonly yes \
    --appendfsync always --daemonize yes >/dev/null || fail "redis"
  until_true 60 redis redis_answers
}

stop_redis() {
  redis shutdown nosave || fail "redis shutdown"
  until_true 60 "end of redis" test ! -e /host/tmp/redis.sock
}

postgres_ctl() { as_postgres /usr/lib/postgresql/15/bin/pg_ctl -s -w -t 120 -D /mnt/postgres "$@"; }

start_postgres() {
  postgres_ctl -l /tmp/postgres.log -o "-c listen_addresses='' -c unix_socket_directories=/tmp" start ||
    fail "postgres: $(cat /host/tmp/postgres.log)"
}

pgbench() { as_postgres /usr/lib/postgresql/15/bin/pgbench -h /tmp "$@" postgres; }

# With the tables of pgbench, so many times 100,000 accounts.
make_database() { # SCALE
  as_postgres /usr/lib/postgresql/15/bin/initdb -D /mnt/postgres -k -A trust >/tmp/initdb.said 2>&1 ||
    fail "initdb: $(tail -5 /tmp/initdb.said)"
  start_postgres
  pgbench -i -q -s "$1" >/dev/null 2>&1 || fail "pgbench -i"
}
