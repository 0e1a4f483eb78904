// SPDX-License-Identifier: GPL-2.0
/*
 * rxe_fuzz INTERFACE TARGETS COUNT SEED: COUNT RoCE v2 packets with right
 * checksums and random faults out of INTERFACE, to 10.9.0.1 as if from there.
 *
 * TARGETS is a file of struct target, which the program that owns the queue
 * pairs shares and keeps up to date. Packets come in short runs that are meant for one
 * queue pair. Most fields of most packets fit the state that it is in, so that
 * they get past the checks of the fields before.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <net/if.h>
#include <linux/if_packet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM		(4096 + 128)
#define BATCH		64
#define ETH		14
#define IP		20
#define UDP		8
#define BTH		12

struct target {
	uint32_t qpn;
	uint32_t psn;		/* that it waits for, or the first one not acknowledged */
	uint32_t spread;	/* how many from there on may fit */
	uint32_t service;	/* upper three bits of its opcodes */
	uint64_t addr;
	uint32_t len;
	uint32_t key;
	uint32_t other_key;	/* of a region without rights for the peer */
	uint32_t qkey;
	uint32_t srq;		/* XRC: the queue that takes its messages */
};

/* A run of packets for one target. */
struct flow {
	struct target to;
	uint32_t psn, last, left;
};

static uint64_t state;

static uint32_t rnd(void)
{
	/* splitmix64 */
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (z ^ (z >> 31)) >> 16;
}

static uint32_t below(uint32_t n)
{
	return ((uint64_t)rnd() * n) >> 32;
}

/* True once in N times. */
static int one_in(uint32_t n)
{
	return below(n) == 0;
}

static uint32_t table[8][256];

static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c & 1 ? 0xedb88320 ^ (c >> 1) : c >> 1;
		table[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 255];
}

static uint32_t crc(uint32_t c, const uint8_t *p, size_t n)
{
	while (n >= 8) {
		uint64_t v;

		memcpy(&v, p, 8);
		v ^= c;
		c = table[7][v & 255] ^ table[6][v >> 8 & 255] ^ table[5][v >> 16 & 255] ^ table[4][v >> 24 & 255] ^
		    table[3][v >> 32 & 255] ^ table[2][v >> 40 & 255] ^ table[1][v >> 48 & 255] ^ table[0][v >> 56];
		p += 8;
		n -= 8;
	}
	while (n--)
		c = table[0][(c ^ *p++) & 255] ^ (c >> 8);
	return c;
}

/* ICRC (IBTA vol. 1, 7.8, and annex A17.3.3): fields that may change on the way are ones. */
static uint32_t icrc(const uint8_t *ip, size_t size)
{
	uint8_t head[8 + IP + UDP + BTH];
	size_t n = size < IP + UDP + BTH ? size : IP + UDP + BTH;

	memset(head, 0xff, 8);
	memcpy(head + 8, ip, n);
	head[9] = 0xff;
	head[16] = 0xff;
	head[18] = head[19] = 0xff;
	head[8 + IP + 6] = head[8 + IP + 7] = 0xff;
	if (n > IP + UDP + 4)
		head[8 + IP + UDP + 4] = 0xff;
	return ~crc(crc(~0u, head, 8 + n), ip + n, size - n);
}

static uint8_t *put32(uint8_t *p, uint32_t v)
{
	v = htonl(v);
	memcpy(p, &v, 4);
	return p + 4;
}

static uint8_t *put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, 8);
	return p + 8;
}

static uint64_t an_address(const struct target *t)
{
	switch (below(8)) {
	case 0:
		return t->addr + t->len - below(16);
	case 1:
		return t->addr - below(4096);
	case 2:
		return (uint64_t)rnd() << 32 | rnd();
	case 3:
		return ~0ull - below(4096);
	default:
		return t->addr + (below(t->len / 2) & ~7u);
	}
}

static uint32_t a_key(const struct target *t)
{
	switch (below(10)) {
	case 0:
		return t->other_key;
	case 1:
		return t->key ^ (1u << below(32));
	case 2:
		return rnd();
	default:
		return t->key;
	}
}

static uint32_t a_length(uint32_t payload)
{
	switch (below(8)) {
	case 0:
		return rnd();
	case 1:
		return below(0x8000);
	case 2:
		return 0;
	default:
		return payload;
	}
}

/* The operation numbers (IBTA vol. 1, table 38) that may follow `last` within a message. */
static uint32_t next_operation(uint32_t last)
{
	switch (last) {
	case 0x00: case 0x01:
		return 1 + below(3);
	case 0x06: case 0x07:
		return 7 + below(3);
	case 0x0d: case 0x0e:
		return 0x0e + below(2);
	default:
		return below(0x20);
	}
}

static int is_response(uint32_t op)
{
	return op >= 0x0d && op <= 0x12;
}

static uint8_t *headers(uint8_t *p, const struct target *t, uint32_t op, uint32_t payload)
{
	if ((t->service == 0xa0 && !is_response(op)) || one_in(200))
		p = put32(p, one_in(20) ? rnd() : t->srq);	/* XRCETH */
	if (t->service == 0x60 || one_in(40)) {
		p = put32(p, one_in(8) ? rnd() : t->qkey);	/* DETH */
		p = put32(p, rnd() & 0xffffff);
	}
	switch (op) {
	case 0x06: case 0x0a: case 0x0b: case 0x0c: case 0x1d:	/* RETH */
		p = put64(p, an_address(t));
		p = put32(p, a_key(t));
		p = put32(p, op == 0x1d ? 8u - one_in(8) : a_length(payload));
		break;
	case 0x0d: case 0x0f: case 0x10: case 0x11: case 0x12:	/* AETH */
		p = put32(p, rnd());
		break;
	case 0x13: case 0x14:					/* AtomicETH */
		p = put64(p, an_address(t));
		p = put32(p, a_key(t));
		p = put64(p, rnd());
		p = put64(p, rnd());
		break;
	case 0x1c:						/* FETH, RETH */
		p = put32(p, one_in(2) ? rnd() : below(64));
		p = put64(p, an_address(t));
		p = put32(p, a_key(t));
		p = put32(p, a_length(payload));
		break;
	}
	switch (op) {
	case 0x03: case 0x05: case 0x09: case 0x0b:
		p = put32(p, rnd());				/* immediate data */
		break;
	case 0x16: case 0x17:
		p = put32(p, one_in(4) ? a_key(t) : rnd());	/* the key to invalidate */
		break;
	case 0x12:
		p = put64(p, rnd());
		break;
	}
	return p;
}

static uint32_t a_psn(struct flow *f)
{
	switch (below(30)) {
	case 0:
		return rnd();
	case 1:
		return f->psn - below(70);
	case 2:
		return f->psn + below(70);
	default:
		return f->psn;
	}
}

/* Writes a frame; returns its size. */
static size_t packet(uint8_t *frame, struct flow *f, uint16_t id)
{
	static const uint32_t sizes[] = { 0, 1, 4, 7, 8, 9, 60, 255, 1020, 1023, 1024, 1025, 1500, 2048 };
	uint8_t *ip = frame + ETH, *bth = ip + IP + UDP, *p;
	const struct target *t = &f->to;
	uint32_t op = next_operation(f->last), payload, psn, pad, sum = 0;
	uint32_t service = one_in(30) ? below(8) << 5 : t->service;
	size_t size;

	/* A middle packet has the path's MTU, mostly. */
	if ((op == 0x00 || op == 0x01 || op == 0x06 || op == 0x07) && !one_in(6))
		payload = 1024;
	else if (op >= 0x0c && op < 0x1c && op != 0x0d && op != 0x0e && op != 0x0f && !one_in(6))
		payload = 0;
	else if (op == 0x1d)
		payload = 8;
	else
		payload = one_in(4) ? below(1100) : sizes[below(sizeof(sizes) / sizeof(*sizes))];
	pad = one_in(20) ? below(4) : -payload & 3;
	psn = a_psn(f);

	bth[0] = service | op;
	bth[1] = (one_in(8) ? rnd() & 0xcf : 0) | pad << 4;
	bth[2] = one_in(30) ? rnd() : 0xff;
	bth[3] = 0xff;
	put32(bth + 4, one_in(40) ? rnd() & 0xffffff : t->qpn);
	put32(bth + 8, (rnd() & 0x80000000) | (psn & 0xffffff));
	p = headers(bth + BTH, t, op, payload);
	for (uint32_t i = 0; i < payload + pad; i += 4)
		put32(p + i, rnd());
	p += payload + pad;
	if (one_in(12))
		p = bth + below(p - bth + 1);			/* cut short */
	if (one_in(12) && p > bth)
		bth[below(p - bth)] ^= 1 << below(8);
	f->psn++;
	f->last = op;
	f->left--;

	size = p - ip;
	ip[0] = 0x45;
	ip[1] = 0;
	put32(ip + 4, (uint32_t)id << 16 | 0x4000);
	*(uint16_t *)(void *)(ip + 2) = htons(size + 4);
	ip[8] = 64;
	ip[9] = 17;
	ip[10] = ip[11] = 0;
	put32(ip + 12, 0x0a090001);
	put32(ip + 16, 0x0a090001);
	for (int i = 0; i < IP; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~(sum + (sum >> 16));
	ip[10] = sum >> 8;
	ip[11] = sum;
	put32(ip + IP, 0xc000u << 16 | 4791);
	put32(ip + IP + 4, (uint32_t)(size + 4 - IP) << 16);
	sum = one_in(200) ? rnd() : htole32(icrc(ip, size));
	memcpy(p, &sum, 4);
	return ETH + size + 4;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

int main(int argc, char **argv)
{
	static const uint8_t eth[ETH] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 15, 8, 0 };
	static uint8_t frames[BATCH][ROOM];
	static struct mmsghdr msgs[BATCH];
	static struct iovec iov[BATCH];
	struct sockaddr_ll to = { .sll_family = AF_PACKET };
	struct target *targets;
	struct flow flow = { .left = 0 };
	struct stat st;
	uint64_t count, sent = 0;
	int sock, fd, n, one = 1;

	if (argc != 5)
		return 2;
	count = strtoull(argv[3], NULL, 0);
	state = strtoull(argv[4], NULL, 0);
	make_table();
	fd = open(argv[2], O_RDWR);
	if (fd < 0 || fstat(fd, &st))
		fail(argv[2]);
	n = st.st_size / sizeof(struct target);
	targets = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (targets == MAP_FAILED || !n)
		fail("targets");
	sock = socket(AF_PACKET, SOCK_RAW, 0);
	to.sll_ifindex = if_nametoindex(argv[1]);
	if (sock < 0 || bind(sock, (void *)&to, sizeof(to)))
		fail(argv[1]);
	setsockopt(sock, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one));
	for (int i = 0; i < BATCH; i++) {
		memcpy(frames[i], eth, ETH);
		iov[i].iov_base = frames[i];
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	while (sent < count) {
		int batch = count - sent < BATCH ? count - sent : BATCH, done = 0;

		for (int i = 0; i < batch; i++) {
			if (!flow.left) {
				memcpy(&flow.to, &targets[below(n)], sizeof(flow.to));
				flow.psn = flow.to.psn + below(flow.to.spread);
				flow.left = 1 + below(8);
				flow.last = 0x1f;
			}
			iov[i].iov_len = packet(frames[i], &flow, sent + i);
		}
		while (done < batch) {
			int rc = sendmmsg(sock, msgs + done, batch - done, 0);

			if (rc < 0)
				fail("sendmmsg");
			done += rc;
		}
		sent += batch;
		if (sent / 100000 != (sent - batch) / 100000) {
			printf("%llu packets\n", (unsigned long long)sent);
			fflush(stdout);
		}
	}
	return 0;
}
