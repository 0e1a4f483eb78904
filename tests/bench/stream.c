// SPDX-License-Identifier: GPL-2.0
/*
 * stream tcp|udp ADDRESS: answers at ADDRESS until it has served one client.
 * stream tcp|udp ADDRESS COUNT: sends COUNT messages of 64 KiB there and prints
 * MB (2^20 bytes) a second. The yardstick for the same bytes over rxe.
 *
 * A message over UDP is 64 datagrams of 1 KiB, as over rxe, with as many
 * messages on their way as rxe has; every message gets an answer.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 18600
#define MESSAGE (64 * 1024)
#define DATAGRAM 1024
#define AHEAD 2

static char buffer[MESSAGE];

static void need(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static void receive(int fd)
{
	size_t got = 0;

	while (got < MESSAGE) {
		ssize_t n = recv(fd, buffer + got, MESSAGE - got, 0);

		need(n > 0, "recv");
		got += n;
	}
}

/* First byte of the last message. */
#define LAST 'L'

static void serve(int fd, int datagrams)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);

	if (datagrams) {
		/* The peer's address comes with the first datagram. */
		need(recvfrom(fd, buffer, 1, MSG_PEEK, (struct sockaddr *)&peer, &len) >= 0, "recvfrom");
		need(!connect(fd, (struct sockaddr *)&peer, len), "connect");
	}
	do {
		receive(fd);
		need(send(fd, "", 1, 0) == 1, "answer");
	} while (buffer[0] != LAST);
}

static void run(int fd, int datagrams, int count)
{
	struct timespec a, b;
	int i, answered = 0;
	double s;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (i = 0; i < count; i++) {
		size_t at, step = datagrams ? DATAGRAM : MESSAGE;

		buffer[0] = i == count - 1 ? LAST : 0;
		for (at = 0; at < MESSAGE; at += step)
			need(send(fd, buffer + at, step, 0) == (ssize_t)step, "send");
		for (; i + 1 - answered >= AHEAD; answered++) {
			char c;

			need(recv(fd, &c, 1, 0) == 1, "answer");
		}
	}
	for (; answered < count; answered++) {
		char c;

		need(recv(fd, &c, 1, 0) == 1, "answer");
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	s = b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) / 1e9;
	printf("%.2f\n", count * (MESSAGE / 1048576.0) / s);
}

int main(int argc, char **argv)
{
	int datagrams = argc > 1 && !strcmp(argv[1], "udp"), room = 8 << 20, one = 1;
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd = socket(AF_INET, datagrams ? SOCK_DGRAM : SOCK_STREAM, 0);

	if (argc < 3 || inet_pton(AF_INET, argv[2], &a.sin_addr) != 1) {
		fprintf(stderr, "usage: stream tcp|udp ADDRESS [COUNT]\n");
		return 2;
	}
	need(fd >= 0, "socket");
	need(!setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)), "SO_RCVBUFFORCE");
	if (argc > 3) {
		/* A datagram that was lost ends the run. */
		struct timeval limit = { .tv_sec = 30 };

		need(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), "SO_RCVTIMEO");
		need(!connect(fd, (struct sockaddr *)&a, sizeof(a)), "connect");
		run(fd, datagrams, atoi(argv[3]));
		return 0;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	need(!bind(fd, (struct sockaddr *)&a, sizeof(a)), "bind");
	if (!datagrams) {
		need(!listen(fd, 1), "listen");
		fd = accept(fd, NULL, NULL);
		need(fd >= 0, "accept");
	}
	serve(fd, datagrams);
	return 0;
}
