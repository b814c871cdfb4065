# SPDX-License-Identifier: GPL-2.0-only
# Debian's debuggers and servers. The output is the same in every run: addresses, process ids and
# figures are removed.
set -u
cd /tmp || exit
cat > threads.c <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
volatile int watched;
volatile long sum;
int step(int i) { watched = i; sum += i; return i * 2; }
void *worker(void *first) { for (int i = 0; i < 3; i++) sum += step((long)first + i); return NULL; }
int main(int count, char **arguments)
{
    pthread_t thread;
    for (long i = 0; i < 3; i++) {
        pthread_create(&thread, NULL, worker, (void *)(i * 10));
        pthread_join(thread, NULL);
    }
    if (count > 1)
        abort();
    return arguments[0] == NULL;
}
END
gcc -g -O0 -pthread -o threads threads.c
plain() { sed 's/0x[0-9a-f]*/ADDRESS/g; s/LWP [0-9]*/LWP/g; s/process [0-9]*/process/g'; }
debug() { gdb -q -batch -nx -ex 'set debuginfod enabled off' -ex 'set print thread-events off' "$@" 2>&1 | plain; }
echo "= gdb: breakpoints, a watchpoint, single steps, registers, a call, a system call"
debug -ex 'break step if i == 11' -ex run -ex 'backtrace 2' -ex 'info threads' -ex 'watch watched' -ex continue -ex continue \
    -ex 'print watched' -ex delete -ex 'stepi 20' -ex 'print $eflags' -ex 'hbreak worker' -ex continue -ex 'thread apply all backtrace 1' \
    -ex 'call step(5)' -ex delete -ex 'catch syscall exit_group' -ex continue -ex continue ./threads
echo "= core"
ulimit -c unlimited
echo core > /proc/sys/kernel/core_pattern
(./threads x) 2> /dev/null
echo "status $?"
debug -ex backtrace -ex 'print sum' -ex 'info threads' ./threads core*
echo "= strace"
strace -f -o trace -e trace=process sh -c 'ls /etc/hostname; (exit 3); true | cat'
grep -o '+++ .* +++' trace | sort
grep -c '^[0-9]* *execve(' trace
echo "= postgresql"
mkdir -p /run/postgresql && chown postgres /run/postgresql
as() { su postgres -c "cd /tmp; $1"; }
data=/var/lib/postgresql/15/main control=/usr/lib/postgresql/15/bin/pg_ctl
as "$control -w -D $data -o '-c config_file=/etc/postgresql/15/main/postgresql.conf' start > /tmp/log 2>&1"
echo "started $?"
as 'createdb bench && pgbench -q -i bench 2> /dev/null && pgbench -c 4 -j 2 -t 50 bench 2> /dev/null' | grep 'actually\|failed'
as 'psql -At bench -c "select count(*), sum(abalance) = (select sum(tbalance) from pgbench_tellers) from pgbench_accounts"'
as "$control -m fast -D $data stop" | tail -1
echo "= nginx"
nginx
head -c 100000 /dev/urandom > /var/www/html/file
wrk -t1 -c8 -d3s http://127.0.0.1/file > answers
grep -c Requests/sec answers
grep 'Socket errors\|Non-2xx' answers
curl -s http://127.0.0.1/file | cmp - /var/www/html/file && echo same
nginx -s stop 2> /dev/null
echo "= iperf3"
iperf3 -s -D --pidfile server
until ss -Hltn | grep -q :5201; do :; done
iperf3 -c 127.0.0.1 -t 2 > answers
grep -c receiver answers
iperf3 -u -b 20M -c 127.0.0.1 -t 1 | grep -c receiver
echo "= fio"
for engine in libaio io_uring mmap; do
    fio --name=file --filename=/root/file --size=8M --rw=randwrite --bs=4k --ioengine=$engine --verify=crc32c --minimal > /dev/null
    echo "$engine $?"
done
