// SPDX-License-Identifier: GPL-2.0-only
/* System V shared memory, semaphores and message queues; POSIX message queues. */
#include "check.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

union semaphore_argument {
	int value;
	struct semid_ds *buffer;
	unsigned short *array;
};

struct text_message {
	long type;
	char text[16];
};

CHECK(ipc, shared_memory)
{
	int id = shmget(IPC_PRIVATE, 3 * PAGE, IPC_CREAT | 0600);
	char *memory = shmat(id, NULL, 0);
	struct shmid_ds info;
	pid_t pid;

	must("attach", memory != (char *)-1);
	pid = spawn();
	if (!pid) {
		strcpy(memory + PAGE, "from the child");
		_exit(0);
	}
	say_child("child", pid);
	say("text=%s", memory + PAGE);
	shmctl(id, IPC_STAT, &info);
	say("size=%zu attached=%lu", info.shm_segsz, (long)info.shm_nattch);
	say_result("remove", shmctl(id, IPC_RMID, NULL));
	say("still=%s", memory + PAGE);
	say_result("detach", shmdt(memory));
	say_result("detach_again", shmdt(memory));
	say_result("gone", (long)shmat(id, NULL, 0));
}

CHECK(ipc, shared_memory_errors)
{
	int id = shmget(IPC_PRIVATE, PAGE, 0600);
	char *memory;

	say_result("absent_key", shmget(0x4b65656c, PAGE, 0));
	say_result("zero", shmget(IPC_PRIVATE, 0, IPC_CREAT));
	memory = shmat(id, NULL, SHM_RDONLY);
	catch_faults();
	SAY_FAULT_OF("write", memory, *(volatile char *)memory = 1);
	say_result("unaligned", (long)shmat(id, memory + 5, 0));
	shmctl(id, IPC_RMID, NULL);
}

CHECK(ipc, semaphores)
{
	int id = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
	struct sembuf down = { 0, -1, 0 }, up = { 0, 1, 0 }, try = { 0, -1, IPC_NOWAIT };
	pid_t pid;

	say_result("set", semctl(id, 1, SETVAL, (union semaphore_argument){ .value = 5 }));
	say_value("get", semctl(id, 1, GETVAL));
	say_result("try", semop(id, &try, 1));
	pid = spawn();
	if (!pid)
		_exit(semop(id, &down, 1) ? 1 : 0);
	must("sleep", await_state(pid, 'S'));
	say_value("waiting", semctl(id, 0, GETNCNT));
	say_result("up", semop(id, &up, 1));
	say_child("child", pid);
	say_result("timeout", semtimedop(id, &down, 1, &(struct timespec){ 0, 5 * MILLISECOND }));
	say_result("remove", semctl(id, 0, IPC_RMID));
	say_result("gone", semop(id, &up, 1));
}

CHECK(ipc, semaphore_undo)
{
	int id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
	struct sembuf up = { 0, 3, SEM_UNDO };
	pid_t pid = spawn();

	if (!pid) {
		semop(id, &up, 1);
		_exit(semctl(id, 0, GETVAL));
	}
	say_child("child", pid);
	say_value("after", semctl(id, 0, GETVAL));
	semctl(id, 0, IPC_RMID);
}

CHECK(ipc, semaphore_removed_under_sleeper)
{
	int id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
	struct sembuf down = { 0, -1, 0 };
	pid_t pid = spawn();

	if (!pid)
		_exit(semop(id, &down, 1) ? errno == EIDRM ? 4 : 5 : 0);
	must("sleep", await_state(pid, 'S'));
	say_result("remove", semctl(id, 0, IPC_RMID));
	say_child("child", pid);
}

CHECK(ipc, messages)
{
	int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
	struct text_message message = { 2, "two" };

	say_result("send_two", msgsnd(id, &message, 4, 0));
	message = (struct text_message){ 1, "one" };
	say_result("send_one", msgsnd(id, &message, 4, 0));
	say_value("by_type", msgrcv(id, &message, 16, 1, 0));
	say("text=%s", message.text);
	say_value("too_small", msgrcv(id, &message, 2, 0, 0));
	say_value("truncated", msgrcv(id, &message, 2, 0, MSG_NOERROR));
	say_value("empty", msgrcv(id, &message, 16, 0, IPC_NOWAIT));
	message.type = 0;
	say_result("bad_type", msgsnd(id, &message, 4, 0));
	say_result("too_big", msgsnd(id, &message, 100000, 0));
	say_result("remove", msgctl(id, IPC_RMID, NULL));
}

CHECK(ipc, message_blocks_until_sent)
{
	int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
	struct text_message message = { 3, "late" };
	pid_t pid = spawn();

	if (!pid)
		_exit(msgrcv(id, &message, 16, 3, 0) == 5 && !strcmp(message.text, "late") ? 6 : 7);
	must("sleep", await_state(pid, 'S'));
	say_result("send", msgsnd(id, &message, 5, 0));
	say_child("child", pid);
	msgctl(id, IPC_RMID, NULL);
}

CHECK(ipc, posix_queue)
{
	struct mq_attr attributes = { .mq_maxmsg = 4, .mq_msgsize = 32 };
	mqd_t queue = mq_open("/keel", O_CREAT | O_RDWR | O_NONBLOCK, 0600, &attributes);
	unsigned priority = 0;
	char text[32] = "";

	say_bool("open", queue >= 0);
	mq_unlink("/keel");
	say_value("empty", mq_receive(queue, text, 32, &priority));
	say_result("low", mq_send(queue, "low", 4, 1));
	say_result("high", mq_send(queue, "high", 5, 9));
	say_value("first", mq_receive(queue, text, 32, &priority));
	say("text=%s priority=%u", text, priority);
	say_value("small_buffer", mq_receive(queue, text, 8, &priority));
	for (int i = 0; i < 3; i++)
		mq_send(queue, "x", 1, 0);
	say_result("full", mq_send(queue, "x", 1, 0));
	say_result("too_long", mq_send(queue, text, 33, 0));
	say_result("absent", mq_open("/absent", O_RDWR));
}

CHECK(ipc, posix_queue_notifies)
{
	mqd_t queue = mq_open("/keel-notify", O_CREAT | O_RDWR, 0600, NULL);
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 12 };
	sigset_t set;
	siginfo_t info;

	mq_unlink("/keel-notify");
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	say_result("notify", mq_notify(queue, &event));
	say_result("again", mq_notify(queue, &event));
	say_result("send", mq_send(queue, "x", 1, 0));
	say_value("signal", sigwaitinfo(&set, &info));
	say("code=%d value=%d", info.si_code, info.si_value.sival_int);
}
