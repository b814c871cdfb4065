#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# gcc: a program of several files with threads, a static and a shared library, errors and warnings.
set -eu
cat > sum.h <<'END'
long sum_range(long from, long to);
double root_sum(int count);
END
cat > sum.c <<'END'
#include "sum.h"
long sum_range(long from, long to)
{
	long sum = 0;

	while (from < to)
		sum += from++;
	return sum;
}
END
cat > root.c <<'END'
#include "sum.h"
#include <math.h>
double root_sum(int count)
{
	double sum = 0;

	for (int i = 0; i < count; i++)
		sum += sqrt(i);
	return sum;
}
END
cat > main.c <<'END'
#include "sum.h"
#include <pthread.h>
#include <stdio.h>

static void *part(void *argument)
{
	long index = (long)argument;

	return (void *)sum_range(index * 1000, (index + 1) * 1000);
}

int main(int argc, char **argv)
{
	pthread_t threads[8];
	long sum = 0;

	for (long i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, part, (void *)i);
	for (int i = 0; i < 8; i++) {
		void *result;

		pthread_join(threads[i], &result);
		sum += (long)result;
	}
	printf("%s: sum %ld, roots %.6f, %d arguments\n", argv[1], sum, root_sum(1000), argc);
	return 6;
}
END
for level in 0 2; do
    gcc -O$level -Wall -c sum.c root.c main.c
    gcc -o "program$level" main.o sum.o root.o -pthread -lm
    ./"program$level" "level$level" || echo "status $?"
done
ar rcs libsum.a sum.o root.o
gcc -static -o fixed main.c libsum.a -pthread -lm
./fixed static || echo "status $?"
gcc -O2 -fPIC -shared -o libsum.so sum.c root.c -lm
gcc -o dynamic main.c -L. -lsum -pthread -Wl,-rpath,"$PWD"
./dynamic dynamic || echo "status $?"
printf 'int main(void) { return undefined; }\n' > bad.c
gcc bad.c -o bad 2>&1 | sed -n 's/.*error: //p'
gcc -S -O2 sum.c -o - | grep -c sum_range
printf '#include <stdio.h>\nint main(void){puts("from standard input");}\n' | gcc -x c - -o piped && ./piped
