#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# redis-server with redis-cli and redis-benchmark over loopback; only lines that do not depend on speed are printed.
set -u
redis-server --port 7000 --save '' --appendonly no --daemonize no > server.log 2>&1 &
server=$!
for _ in $(seq 300); do
    [ "$(redis-cli -p 7000 ping 2>/dev/null)" = PONG ] && break
    sleep 0.1
done
redis-cli -p 7000 ping
redis-cli -p 7000 set key value
redis-cli -p 7000 get key
for i in 1 2 3 4 5; do redis-cli -p 7000 incr counter; done
seq 1 200 | sed 's/.*/RPUSH list &/' | redis-cli -p 7000 | tail -1
redis-cli -p 7000 lrange list 197 -1
redis-cli -p 7000 eval 'return redis.call("llen", KEYS[1]) * 2' 1 list
redis-benchmark -p 7000 -n 500 -c 10 -q -t set,get,lpush,incr > benchmark.log 2>&1
echo "benchmark: $?"
tr '\r' '\n' < benchmark.log | grep -o '^[A-Z]*: [0-9.]* requests per second' | sed 's/: .*//' | sort -u
redis-cli -p 7000 get counter:__rand_int__
redis-cli -p 7000 info stats | tr -d '\r' | grep '^rejected_connections'
redis-cli -p 7000 shutdown nosave
wait $server
echo "server: $?"
