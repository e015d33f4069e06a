/* A load generator for Tidings brokers: one thread, epoll, one JSON line out.
 *
 * What it says first on each connection, and the pieces of a Publish, come from a plan that Python wrote with
 * the real codec (see plan.py), so no filter and no name is encoded here. It builds Publish, PublishAll (what is
 * published in one turn, as our client does), AckAll and Credit frames, reads Deliver, DeliverAll, Published, PublishedAll and Refused, and checks every checksum.
 *
 * A payload begins with 44 bytes, little endian: magic u32 | send ns u64 | number of the publisher's event u64 |
 * number within its class u64 | publisher u32 | class u32 | symbol u32 | change i32. A class is a symbol and a
 * band of change; a subscriber wants one class, so gaps, repeats and disorder are seen per publisher and class.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;

#define MAGIC 0x67646974u
#define NO_CLASS 0xffffffffu
#define ACK_BATCH 64
#define RUN 64 /* events of one PublishAll */
#define STEPS 64 /* of the histogram, in each power of two */
#define CHANGES 2000 /* changes are -1000 .. 999 */

enum { TEXT, CALL, SEQUENCE, ID, SYMBOL, CHANGE, PAYLOAD }; /* pieces of a Publish */

typedef struct { u8 kind; u32 length; const u8 *bytes; } piece;
typedef struct { u64 next, seen; } order; /* the next number, and which of the last 64 came */
typedef struct { u32 magic; u64 sent_ns, number, class_number; u32 publisher, class, symbol; int32_t change; }
    __attribute__((packed)) header;
typedef struct {
  int fd, index, is_publisher, is_dead, is_armed, port;
  const u8 *open, *hello;
  u32 open_length, hello_length, answers, class;
  u8 *rest; size_t rest_length, rest_room;      /* of a frame that is not complete */
  u8 *out; size_t out_at, out_length, out_room; /* not sent yet */
  u32 ack_ref, acks; u64 first_tag; /* heard and not acknowledged: so many from that tag on */
  piece *pieces; u32 piece_count;
  u8 *run; size_t run_length, run_room; u32 run_count; /* events that leave in one frame at the end of the turn */
  u64 number, random, unanswered, *class_numbers, *call_ns;
  order *orders; /* of a subscriber, by publisher */
} conn;

static const char *host = "127.0.0.1", *plan_path, *pids = "";
static int payload_size = 100;
static long window, in_flight;
static double rate, seconds = 3, drain_seconds = 3, hold_seconds;
static u64 most;

static conn *subscribers, *publishers;
static u32 subscriber_count, publisher_count, symbols, bands;
static u32 *wanting; /* by class: how many subscribers */
static const u8 *pong; static u32 pong_length;
static int epoll_fd;
static u8 *input; static const size_t input_room = 1 << 20;
static u64 read_ns, start_ns, last_ns, sent, expected, received, received_bytes, answered, refused, lost, repeated,
    reordered, late, bad, gone, stalls, forgiven, acks_sent, ended;
static u64 latencies[64 * STEPS], answer_latencies[64 * STEPS], latency_max, answer_max;
static u64 widest; /* deliveries of the class that most want */

static void die(const char *what) { fprintf(stderr, "load: %s (%s)\n", what, strerror(errno)); exit(2); }

static u64 now_ns(void) {
  struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}

/* ---- checksum ---- */
static u32 table[256];
static int has_crc;
static void make_table(void) {
  for (u32 i = 0; i < 256; i++) { u32 c = i; for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1; table[i] = c; }
#if defined(__x86_64__)
  has_crc = __builtin_cpu_supports("sse4.2");
#endif
}
#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static u32 crc_fast(u32 c, const u8 *p, size_t n) {
  u64 v = c;
  for (; n >= 8; n -= 8, p += 8) { u64 w; memcpy(&w, p, 8); v = __builtin_ia32_crc32di(v, w); }
  for (; n; n--) v = __builtin_ia32_crc32qi((u32)v, *p++);
  return (u32)v;
}
#endif
static u32 crc32c(const u8 *p, size_t n) {
  u32 c = ~0u;
#if defined(__x86_64__)
  if (has_crc) return ~crc_fast(c, p, n);
#endif
  while (n--) c = table[(c ^ *p++) & 255] ^ c >> 8;
  return ~c;
}

/* ---- histogram ---- */
static int step_of(u64 v) {
  if (v < STEPS) return (int)v;
  int e = 63 - __builtin_clzll(v);
  return (e - 5) * STEPS + (int)((v >> (e - 6)) & (STEPS - 1));
}
static double value_of(int i) {
  if (i < STEPS) return i;
  int e = i / STEPS + 5;
  return (double)((1ull << e) + ((u64)(i % STEPS) << (e - 6)));
}
static double percentile_us(const u64 *h, double share) {
  u64 all = 0, below = 0;
  for (int i = 0; i < 64 * STEPS; i++) all += h[i];
  u64 rank = (u64)(share * (double)all);
  for (int i = 0; i < 64 * STEPS; i++) { below += h[i]; if (below > rank) return value_of(i) / 1000.0; }
  return 0;
}

/* ---- processes ---- */
static double cpu_of(int pid) {
  char name[64], text[1024]; snprintf(name, sizeof name, "/proc/%d/stat", pid);
  FILE *f = fopen(name, "r"); if (!f) return 0;
  size_t n = fread(text, 1, sizeof text - 1, f); text[n] = 0; fclose(f);
  char *p = strrchr(text, ')'); unsigned long user = 0, system = 0;
  if (p) sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
  return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}
static double rss_of(int pid) {
  char name[64], line[256]; long kb = 0; snprintf(name, sizeof name, "/proc/%d/status", pid);
  FILE *f = fopen(name, "r"); if (!f) return 0;
  while (fgets(line, sizeof line, f)) if (sscanf(line, "VmRSS: %ld", &kb) == 1) break;
  fclose(f); return (double)kb;
}
static double of_brokers(double (*what)(int)) {
  double all = 0; const char *p = pids;
  while (*p) { char *end; long pid = strtol(p, &end, 10); if (end == p) break; all += what((int)pid); p = *end ? end + 1 : end; }
  return all;
}
static double own_cpu(void) {
  struct rusage r; getrusage(RUSAGE_SELF, &r);
  return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

/* ---- output ---- */
static u8 *room(conn *c, size_t n) {
  if (c->out_at == c->out_length) c->out_at = c->out_length = 0;
  if (c->out_length + n > c->out_room) {
    memmove(c->out, c->out + c->out_at, c->out_length - c->out_at);
    c->out_length -= c->out_at; c->out_at = 0;
    if (c->out_length + n > c->out_room) { c->out_room = (c->out_length + n) * 2 + 4096; c->out = realloc(c->out, c->out_room); }
  }
  return c->out + c->out_length;
}
static void put(conn *c, const void *bytes, size_t n) { memcpy(room(c, n), bytes, n); c->out_length += n; }
static void arm(conn *c, int writing) {
  if (c->is_armed == writing || c->is_dead) return;
  c->is_armed = writing;
  struct epoll_event e = { .events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = c };
  epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}
static void lose(conn *c) {
  if (c->is_dead) return;
  c->is_dead = 1; gone++; epoll_ctl(epoll_fd, EPOLL_CTL_DEL, c->fd, 0); close(c->fd);
}
static void flush(conn *c) {
  while (!c->is_dead && c->out_at < c->out_length) {
    ssize_t k = send(c->fd, c->out + c->out_at, c->out_length - c->out_at, MSG_NOSIGNAL);
    if (k > 0) c->out_at += (size_t)k;
    else if (k < 0 && errno == EAGAIN) { arm(c, 1); return; }
    else if (!(k < 0 && errno == EINTR)) { lose(c); return; }
  }
  arm(c, 0);
}

/* ---- MessagePack: what we write ---- */
static u8 *be(u8 *p, u64 v, int n) { for (int i = n - 1; i >= 0; i--) { p[i] = (u8)v; v >>= 8; } return p + n; }
static u8 *number32(u8 *p, u64 v) { *p++ = 0xce; return be(p, v, 4); }
static void frame_end(conn *c, u8 *frame, u8 *end) { /* the head of a frame whose body stands at frame + 9 */
  u32 version_and_body; u8 *body = frame + 9; size_t n = (size_t)(end - body);
  frame[8] = 1; version_and_body = crc32c(frame + 8, n + 1); /* the version stands before the body for a moment */
  be(frame, n + 5, 4); frame[4] = 1; be(frame + 5, version_and_body, 4);
  c->out_length += (size_t)(end - frame);
}
static void acknowledge(conn *c) {
  if (!c->acks) return;
  u8 *f = room(c, 64), *p = f + 9;
  *p++ = 0x94; memcpy(p, "\xa6" "AckAll", 7); p += 7; p = number32(p, c->ack_ref);
  p = number32(p, c->first_tag); p = number32(p, c->acks);
  frame_end(c, f, p);
  f = room(c, 64); p = f + 9;
  *p++ = 0x93; memcpy(p, "\xa6" "Credit", 7); p += 7; p = number32(p, c->ack_ref); p = number32(p, c->acks);
  frame_end(c, f, p);
  acks_sent += c->acks; c->acks = 0;
}

static void end_run(conn *c) { /* one event in a Publish, several in a PublishAll */
  if (!c->run_count) return;
  u64 first = c->number - c->run_count + 1; piece *mode = &c->pieces[c->piece_count - 1];
  u8 *f = room(c, 256 + mode->length + c->run_length), *p = f + 9;
  if (c->run_count == 1) {
    memcpy(p, c->pieces[0].bytes, c->pieces[0].length); p = number32(p + c->pieces[0].length, first);
    memcpy(p, c->run, c->run_length); p = number32(p + c->run_length, first);
    memcpy(p, mode->bytes, mode->length); p += mode->length;
  } else {
    *p++ = 0x95; memcpy(p, "\xaa" "PublishAll", 11); p = number32(p + 11, first); p = number32(p, first);
    memcpy(p, mode->bytes, mode->length); p += mode->length;
    *p++ = 0xdc; p = be(p, c->run_count, 2);
    memcpy(p, c->run, c->run_length); p += c->run_length;
  }
  frame_end(c, f, p); c->run_length = 0; c->run_count = 0;
}

static u64 owed(void) { return expected - (received - repeated - late) - lost; } /* deliveries */
static void publish(conn *c, u64 ns) {
  u64 x = c->random; x ^= x << 13; x ^= x >> 7; x ^= x << 17; c->random = x;
  u32 symbol = (u32)(x >> 32) % symbols; int32_t change = (int32_t)((u32)x % CHANGES) - CHANGES / 2;
  u32 class = symbol * bands + (u32)(change + CHANGES / 2) / (CHANGES / bands);
  header h = { MAGIC, ns, c->number, c->class_numbers[class]++, (u32)c->index, class, symbol, change };
  u64 sequence = ++c->number;
  size_t most = c->run_length + 4096 + (size_t)payload_size;
  if (c->run_room < most) { c->run_room = 2 * most; c->run = realloc(c->run, c->run_room); }
  u8 *p = c->run + c->run_length;
  for (u32 i = 2; i < c->piece_count && c->pieces[i].kind != SEQUENCE; i++) { /* the event stands behind the call */
    piece *one = &c->pieces[i];
    switch (one->kind) {
      case TEXT: memcpy(p, one->bytes, one->length); p += one->length; break;
      case ID: { u8 *length = p + 1; *p = 0xd9; p += 2; memcpy(p, one->bytes, one->length); p += one->length;
        p += sprintf((char *)p, "-%llu", (unsigned long long)sequence); *length = (u8)(p - length - 1); break; }
      case SYMBOL: *p++ = 0xcd; p = be(p, symbol, 2); break;
      case CHANGE: { double d = change / 100.0; u64 v; memcpy(&v, &d, 8); *p++ = 0xcb; p = be(p, v, 8); break; }
      case PAYLOAD: *p++ = 0xc5; p = be(p, (u64)payload_size, 2); memcpy(p, &h, sizeof h);
        memset(p + sizeof h, 'x', (size_t)payload_size - sizeof h); p += payload_size; break;
    }
  }
  c->run_length = (size_t)(p - c->run);
  if (++c->run_count == RUN) end_run(c);
  c->call_ns[sequence & 0xffff] = now_ns(); c->unanswered++; sent++; expected += wanting[class];
}

/* ---- MessagePack: what we read ---- */
static u64 be_of(const u8 *p, int n) { u64 v = 0; while (n--) v = v << 8 | *p++; return v; }
static const u8 *number_at(const u8 *p, const u8 *end, u64 *v) {
  if (p >= end) return NULL;
  u8 t = *p++;
  if (t < 0x80) { *v = t; return p; }
  if (t < 0xcc || t > 0xcf) return NULL;
  int n = 1 << (t - 0xcc);
  if (end - p < n) return NULL;
  *v = be_of(p, n); return p + n;
}
static const u8 *skip(const u8 *p, const u8 *end) { /* past one value; NULL when there is none */
  u64 values = 1;
  while (values--) {
    if (!p || p >= end) return NULL;
    u8 t = *p++; u64 n = 0; int size = 0;
    if (t < 0x80 || t >= 0xe0 || t == 0xc0 || t == 0xc2 || t == 0xc3) continue;
    else if (t < 0x90) { values += 2 * (t & 15u); continue; }
    else if (t < 0xa0) { values += t & 15u; continue; }
    else if (t < 0xc0) n = t & 31u;
    else if (t >= 0xc4 && t <= 0xc6) size = 1 << (t - 0xc4);
    else if (t >= 0xc7 && t <= 0xc9) { size = 1 << (t - 0xc7); if (end - p < size) return NULL; n = be_of(p, size) + 1; p += size; size = 0; }
    else if (t == 0xca) n = 4; else if (t == 0xcb) n = 8;
    else if (t >= 0xcc && t <= 0xcf) n = 1u << (t - 0xcc);
    else if (t >= 0xd0 && t <= 0xd3) n = 1u << (t - 0xd0);
    else if (t >= 0xd4 && t <= 0xd8) n = 1 + (1u << (t - 0xd4));
    else if (t >= 0xd9 && t <= 0xdb) size = 1 << (t - 0xd9);
    else if (t >= 0xdc && t <= 0xdf) { int w = t & 1 ? 4 : 2; if (end - p < w) return NULL; values += be_of(p, w) * (t < 0xde ? 1 : 2); p += w; continue; }
    else return NULL;
    if (size) { if (end - p < size) return NULL; n = be_of(p, size); p += size; }
    if ((u64)(end - p) < n) return NULL;
    p += n;
  }
  return p;
}
static const u8 *payload_of(const u8 *p, const u8 *end, u64 *length) { /* of an event, a map */
  if (p >= end || (*p & 0xf0) != 0x80) return NULL;
  for (int pairs = *p++ & 15; pairs--;) {
    int is_payload = end - p > 8 && !memcmp(p, "\xa7payload", 8);
    p = skip(p, end); if (!p) return NULL;
    if (is_payload) {
      int size = *p == 0xc4 ? 1 : *p == 0xc5 ? 2 : *p == 0xc6 ? 4 : 0;
      if (!size || end - p < 1 + size) return NULL;
      *length = be_of(p + 1, size); p += 1 + size;
      return (u64)(end - p) < *length ? NULL : p;
    }
    p = skip(p, end); if (!p) return NULL;
  }
  return NULL;
}

static void note_order(order *s, u64 n) {
  if (n == s->next) { s->next++; s->seen = s->seen << 1 | 1; return; }
  if (n > s->next) { u64 gap = n - s->next; lost += gap; s->seen = gap >= 63 ? 1 : s->seen << (gap + 1) | 1; s->next = n + 1; return; }
  u64 back = s->next - 1 - n;
  if (back >= 64) late++;
  else if (s->seen >> back & 1) repeated++;
  else { s->seen |= 1ull << back; reordered++; lost--; }
}
static void on_event(conn *c, u64 ref, u64 tag, const u8 *p, const u8 *end) {
  u64 length = 0;
  if (c->acks == ACK_BATCH || (c->acks && (c->ack_ref != ref || c->first_tag + c->acks != tag))) acknowledge(c);
  if (!c->acks++) { c->ack_ref = (u32)ref; c->first_tag = tag; }
  const u8 *payload = payload_of(p, end, &length); header h;
  if (!payload || length != (u64)payload_size) { bad++; return; }
  memcpy(&h, payload, sizeof h);
  if (h.magic != MAGIC || h.publisher >= publisher_count || h.class >= symbols * bands || (c->class != NO_CLASS && h.class != c->class)) { bad++; return; }
  received++; received_bytes += length; last_ns = read_ns;
  u64 took = read_ns > h.sent_ns ? read_ns - h.sent_ns : 0;
  latencies[step_of(took)]++; if (took > latency_max) latency_max = took;
  if (c->class != NO_CLASS) note_order(&c->orders[h.publisher], h.class_number);
}
static void on_deliver(conn *c, const u8 *p, const u8 *end) { /* after its name */
  u64 ref, tag;
  if (!(p = number_at(p, end, &ref)) || !(p = number_at(p, end, &tag))) { bad++; return; }
  on_event(c, ref, tag, p, end);
}
static void on_deliver_all(conn *c, const u8 *p, const u8 *end) {
  u64 ref, tag, count;
  if (!(p = number_at(p, end, &ref)) || !(p = number_at(p, end, &tag)) || end - p < 5) { bad++; return; }
  u8 t = *p++;
  if ((t & 0xf0) == 0x90) count = t & 15; else if (t == 0xdc) { count = be_of(p, 2); p += 2; } else if (t == 0xdd) { count = be_of(p, 4); p += 4; } else { bad++; return; }
  while (count--) {
    const u8 *next = skip(p, end);
    if (!next) { bad++; return; }
    on_event(c, ref, tag++, p, next); p = next;
  }
}
static void answer_to(conn *c, u64 call, int is_refused) {
  if (is_refused) refused++; else answered++;
  if (c->unanswered) c->unanswered--;
  u64 took = read_ns - c->call_ns[call & 0xffff];
  answer_latencies[step_of(took)]++; if (took > answer_max) answer_max = took;
  last_ns = read_ns;
}
static void on_answer(conn *c, const u8 *p, const u8 *end, int is_refused) {
  u64 call;
  if (!number_at(p, end, &call) || !c->is_publisher) { bad++; return; }
  answer_to(c, call, is_refused);
}
static void on_answers(conn *c, const u8 *p, const u8 *end) {
  u64 call, count;
  if (!(p = number_at(p, end, &call)) || !number_at(p, end, &count) || !c->is_publisher || count > c->unanswered) { bad++; return; }
  while (count--) answer_to(c, call++, 0);
}
static int is_called(const u8 *body, const u8 *end, const char *name) {
  size_t n = strlen(name);
  return (size_t)(end - body) > n + 1 && body[1] == (0xa0 | n) && !memcmp(body + 2, name, n);
}
static void on_frame(conn *c, const u8 *body, const u8 *end) {
  if (is_called(body, end, "Deliver")) on_deliver(c, body + 9, end);
  else if (is_called(body, end, "DeliverAll")) on_deliver_all(c, body + 12, end);
  else if (is_called(body, end, "PublishedAll")) on_answers(c, body + 14, end);
  else if (is_called(body, end, "Published")) on_answer(c, body + 11, end, 0);
  else if (is_called(body, end, "Refused")) on_answer(c, body + 9, end, 1);
  else if (is_called(body, end, "Ping")) put(c, pong, pong_length);
  else if (is_called(body, end, "Closed")) ended++;
}
static size_t frames(conn *c, const u8 *p, size_t n, void (*each)(conn *, const u8 *, const u8 *)) {
  size_t at = 0;
  while (n - at >= 9) {
    size_t length = be_of(p + at, 4);
    if (n - at < length + 4) break;
    u8 *frame = (u8 *)p + at, *body = frame + 9; u8 kept = frame[8]; u32 said = (u32)be_of(frame + 5, 4);
    frame[8] = frame[4];
    if (crc32c(frame + 8, length - 4) != said) bad++;
    frame[8] = kept;
    each(c, body, frame + 4 + length); at += length + 4;
  }
  return at;
}
static int take_in(conn *c, void (*each)(conn *, const u8 *, const u8 *)) { /* 0: nothing more for now */
  size_t have = c->rest_length;
  if (have > input_room / 2) die("a frame is too large");
  memcpy(input, c->rest, have);
  ssize_t k = recv(c->fd, input + have, input_room - have, MSG_DONTWAIT);
  if (k <= 0) { if (k < 0 && (errno == EAGAIN || errno == EINTR)) return 0; lose(c); return 0; }
  read_ns = now_ns(); have += (size_t)k;
  size_t used = frames(c, input, have, each);
  c->rest_length = have - used;
  if (c->rest_length > c->rest_room) { c->rest_room = c->rest_length * 2; c->rest = realloc(c->rest, c->rest_room); }
  memcpy(c->rest, input + used, c->rest_length);
  return (size_t)k == input_room - have;
}
static void on_readable(conn *c) {
  if (c->is_dead) return;
  take_in(c, on_frame);
  if (c->acks == ACK_BATCH) acknowledge(c);
  if (c->out_at < c->out_length && !c->is_publisher) flush(c);
}

/* ---- beginning ---- */
static u32 greeted;
static void on_greeting(conn *c, const u8 *body, const u8 *end) {
  if (is_called(body, end, "Denied") || is_called(body, end, "Refused")) {
    fprintf(stderr, "load: the broker said no: %.*s\n", (int)(end - body), body); exit(2);
  }
  if (is_called(body, end, "Ping")) put(c, pong, pong_length);
  else if (is_called(body, end, "Deliver")) on_deliver(c, body + 9, end);
  else if (is_called(body, end, "DeliverAll")) on_deliver_all(c, body + 12, end);
  else greeted++;
}
static void exchange(conn *c, const u8 *bytes, u32 length, u32 answers) { /* at most 64 KiB between reads */
  greeted = 0; u32 at = 0; u64 until = now_ns() + 600000000000ull;
  while (greeted < answers) {
    struct pollfd p = { c->fd, POLLIN | (at < length ? POLLOUT : 0), 0 };
    if (poll(&p, 1, 120000) <= 0 || now_ns() > until) die("the broker does not answer");
    if (p.revents & POLLOUT) {
      ssize_t k = send(c->fd, bytes + at, length - at > 65536 ? 65536 : length - at, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (k > 0) at += (u32)k; else if (errno != EAGAIN) die("it cannot be written to");
    }
    if (p.revents & (POLLIN | POLLHUP)) { take_in(c, on_greeting); if (c->is_dead) die("the broker left"); }
  }
}
static void connect_one(conn *c) {
  struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((u16)c->port) }; int one = 1;
  inet_pton(AF_INET, host, &a.sin_addr);
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (c->fd < 0 || connect(c->fd, (void *)&a, sizeof a)) die("it cannot connect");
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  exchange(c, c->open, c->open_length, 1);
  exchange(c, c->hello, c->hello_length, c->answers);
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
}

/* ---- the plan ---- */
static const u8 *plan_at, *plan_end;
static u32 plan_u32(void) { u32 v; if (plan_end - plan_at < 4) die("the plan is cut short"); memcpy(&v, plan_at, 4); plan_at += 4; return v; }
static const u8 *plan_bytes(u32 *length) { *length = plan_u32(); const u8 *p = plan_at; if (plan_end - p < (long)*length) die("the plan is cut short"); plan_at += *length; return p; }
static void read_conn(conn *c, int index, int is_publisher) {
  c->index = index; c->is_publisher = is_publisher; c->port = (int)plan_u32();
  c->open = plan_bytes(&c->open_length); c->hello = plan_bytes(&c->hello_length);
  c->answers = plan_u32(); c->class = plan_u32(); c->piece_count = plan_u32();
  c->pieces = calloc(c->piece_count + 1, sizeof *c->pieces);
  for (u32 i = 0; i < c->piece_count; i++) { c->pieces[i].kind = (u8)plan_u32(); c->pieces[i].bytes = plan_bytes(&c->pieces[i].length); }
  if (is_publisher) {
    c->class_numbers = calloc((size_t)symbols * bands, 8); c->call_ns = calloc(65536, 8);
    c->random = 0x9E3779B97F4A7C15ull * (u64)(index + 1);
  } else { c->orders = calloc(publisher_count + 1, sizeof(order)); if (c->class != NO_CLASS) wanting[c->class]++; }
}
static void read_plan(void) {
  FILE *f = fopen(plan_path, "rb"); if (!f) die("no plan");
  fseek(f, 0, SEEK_END); long n = ftell(f); rewind(f);
  u8 *all = malloc((size_t)n); if (fread(all, 1, (size_t)n, f) != (size_t)n) die("the plan cannot be read");
  fclose(f); plan_at = all; plan_end = all + n;
  subscriber_count = plan_u32(); publisher_count = plan_u32(); symbols = plan_u32(); bands = plan_u32();
  pong = plan_bytes(&pong_length); wanting = calloc((size_t)symbols * bands, sizeof *wanting);
  subscribers = calloc(subscriber_count + 1, sizeof(conn)); publishers = calloc(publisher_count + 1, sizeof(conn));
  for (u32 i = 0; i < subscriber_count; i++) read_conn(&subscribers[i], (int)i, 0);
  for (u32 i = 0; i < publisher_count; i++) read_conn(&publishers[i], (int)i, 1);
  widest = 1;
  for (u32 i = 0; i < symbols * bands; i++) if (wanting[i] > widest) widest = wanting[i];
}

/* ---- the run ---- */
static u32 turn; static double due_ns;
static int is_window_full(void) { return window && subscriber_count && (int64_t)(owed() - forgiven) >= (int64_t)((u64)window * widest); }
static long publish_some(u64 now) { /* the longest that we may wait afterwards */
  long wait = 100000000; u32 blocked = 0;
  while (blocked < publisher_count && !(most && sent >= most)) {
    if (rate > 0 && due_ns > (double)now) { wait = (long)(due_ns - (double)now); break; }
    if (is_window_full()) break;
    conn *c = &publishers[turn]; turn = turn + 1 == publisher_count ? 0 : turn + 1;
    if (c->is_dead || (in_flight && c->unanswered >= (u64)in_flight) || c->unanswered > 60000 || c->out_length - c->out_at > (rate > 0 ? 1u << 22 : 1u << 16)) { blocked++; continue; }
    blocked = 0; publish(c, rate > 0 ? (u64)due_ns : now_ns());
    if (rate > 0) due_ns += 1e9 / rate;
  }
  for (u32 i = 0; i < publisher_count; i++) end_run(&publishers[i]);
  for (u32 i = 0; i < publisher_count; i++) if (publishers[i].out_at < publishers[i].out_length && !publishers[i].is_armed) flush(&publishers[i]);
  return wait;
}
static u64 unanswered_now(void) {
  u64 all = 0;
  for (u32 i = 0; i < publisher_count; i++) if (!publishers[i].is_dead) all += publishers[i].unanswered + (publishers[i].out_length - publishers[i].out_at);
  return all;
}
static void acknowledge_all(void) {
  for (u32 i = 0; i < subscriber_count; i++) if (!subscribers[i].is_dead && subscribers[i].acks) { acknowledge(&subscribers[i]); flush(&subscribers[i]); }
}
static void wait_for_input(long ns) {
  struct epoll_event events[512]; struct timespec t = { ns / 1000000000, ns % 1000000000 };
  int n = epoll_pwait2(epoll_fd, events, 512, &t, 0);
  if (n < 0 && errno != EINTR) die("epoll");
  for (int i = 0; i < n; i++) {
    conn *c = events[i].data.ptr;
    if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) on_readable(c);
    if (events[i].events & EPOLLOUT) flush(c);
  }
}
static u64 run(void) { /* when publishing ended */
  u64 until = most ? ~0ull : start_ns + (u64)(seconds * 1e9), hard = start_ns + (u64)(((most ? 60 : seconds) + drain_seconds) * 1e9);
  u64 published_ns = 0, progress = 0, progress_ns = start_ns, acked_ns = start_ns; due_ns = (double)start_ns;
  for (;;) {
    u64 now = now_ns(); long wait = 5000000; int is_publishing = publisher_count && now < until && !(most && sent >= most) && gone < publisher_count;
    if (!is_publishing && !published_ns) published_ns = progress_ns = now;
    if (received + answered != progress) { progress = received + answered; progress_ns = now; }
    if (is_publishing) {
      wait = publish_some(now);
      if (now - progress_ns > 1000000000ull && is_window_full()) { forgiven = owed(); stalls++; progress_ns = now; }
    } else if (((int64_t)owed() <= 0 && !unanswered_now()) || now - progress_ns > (u64)(drain_seconds * 1e9) || now > hard) return published_ns;
    if (now - acked_ns > 1000000000ull) { /* what is not a whole batch waits a second at most */ acknowledge_all(); acked_ns = now; }
    wait_for_input(wait > 100000000 ? 100000000 : wait);
  }
}
static void hold(void) { /* stay connected, and answer pings */
  u64 until = now_ns() + (u64)(hold_seconds * 1e9);
  while (now_ns() < until) { wait_for_input(50000000); for (u32 i = 0; i < subscriber_count; i++) if (subscribers[i].out_at < subscribers[i].out_length) flush(&subscribers[i]); }
}
static void print_result(double set_up, double rss, double rss_idle, double rss_end, double broker_cpu, double cpu, u64 published_ns) {
  double took = (double)(last_ns > start_ns ? last_ns - start_ns : 1) / 1e9, publishing = (double)(published_ns - start_ns) / 1e9;
  double wall = (double)(now_ns() - start_ns) / 1e9;
  u64 left = (int64_t)owed() > 0 ? owed() : 0;
  printf("{\"proto\":\"tidings\",\"pubs\":%u,\"subs\":%u,\"size\":%d,\"window\":%ld,\"inflight\":%ld,\"rate\":%.0f,\"setup_s\":%.3f,\"secs\":%.4f,\"publishing_s\":%.4f,",
         publisher_count, subscriber_count, payload_size, window, in_flight, rate, set_up, took, publishing);
  printf("\"sent\":%llu,\"expected\":%llu,\"received\":%llu,\"acked\":%llu,\"sent_per_s\":%.1f,\"recv_per_s\":%.1f,\"mb_per_s\":%.2f,\"acked_per_s\":%.1f,\"wanted\":%llu,\"wanted_per_s\":%.1f,",
         (unsigned long long)sent, (unsigned long long)expected, (unsigned long long)received, (unsigned long long)answered,
         (double)sent / took, (double)received / took, (double)received_bytes / took / 1e6, (double)answered / took, (unsigned long long)received, (double)received / took);
  printf("\"lat_p50_us\":%.1f,\"lat_p99_us\":%.1f,\"lat_max_us\":%.1f,\"ack_p50_us\":%.1f,\"ack_p99_us\":%.1f,\"ack_max_us\":%.1f,",
         percentile_us(latencies, .5), percentile_us(latencies, .99), (double)latency_max / 1e3,
         percentile_us(answer_latencies, .5), percentile_us(answer_latencies, .99), (double)answer_max / 1e3);
  printf("\"lost\":%llu,\"undelivered\":%llu,\"duplicated\":%llu,\"reordered\":%llu,\"late\":%llu,\"bad\":%llu,\"ack_errors\":%llu,\"closed\":%llu,\"disconnects\":%llu,\"stalls\":%llu,",
         (unsigned long long)lost, (unsigned long long)left, (unsigned long long)repeated, (unsigned long long)reordered, (unsigned long long)late, (unsigned long long)bad,
         (unsigned long long)refused, (unsigned long long)ended, (unsigned long long)gone, (unsigned long long)stalls);
  printf("\"broker_cpu_s\":%.2f,\"broker_cpu_pct\":%.1f,\"broker_us_per_recv\":%.3f,\"broker_us_per_ack\":%.3f,\"broker_us_per_sent\":%.3f,\"broker_us_per_wanted\":%.3f,\"gen_cpu_s\":%.2f,\"gen_cpu_pct\":%.1f,",
         broker_cpu, 100 * broker_cpu / wall, received ? broker_cpu * 1e6 / (double)received : 0, answered ? broker_cpu * 1e6 / (double)answered : 0,
         sent ? broker_cpu * 1e6 / (double)sent : 0, received ? broker_cpu * 1e6 / (double)received : 0, cpu, 100 * cpu / wall);
  printf("\"rss_before_kb\":%.0f,\"rss_connected_kb\":%.0f,\"rss_after_kb\":%.0f}\n", rss, rss_idle, rss_end);
}

static const char *HELP =
  "load --plan FILE [--broker-pids P,P] [--secs S | --count N] [--window N] [--rate R] [--inflight N] [--size BYTES]\n"
  "     [--drain S] [--hold S]    one JSON line; the plan says who connects where, and what each wants\n";
int main(int count, char **words) {
  static struct option known[] = { { "plan", 1, 0, 1 }, { "broker-pids", 1, 0, 2 }, { "secs", 1, 0, 3 }, { "count", 1, 0, 4 }, { "window", 1, 0, 5 }, { "rate", 1, 0, 6 },
    { "inflight", 1, 0, 7 }, { "size", 1, 0, 8 }, { "drain", 1, 0, 9 }, { "hold", 1, 0, 10 }, { 0, 0, 0, 0 } };
  for (int k; (k = getopt_long(count, words, "", known, 0)) != -1;) switch (k) {
    case 1: plan_path = optarg; break; case 2: pids = optarg; break; case 3: seconds = atof(optarg); break; case 4: most = strtoull(optarg, 0, 10); break;
    case 5: window = atol(optarg); break; case 6: rate = atof(optarg); break; case 7: in_flight = atol(optarg); break; case 8: payload_size = atoi(optarg); break;
    case 9: drain_seconds = atof(optarg); break; case 10: hold_seconds = atof(optarg); break; default: fputs(HELP, stderr); return 2; }
  if (!plan_path || payload_size < (int)sizeof(header) || payload_size > 65000) { fputs(HELP, stderr); return 2; }
  struct rlimit files; getrlimit(RLIMIT_NOFILE, &files); files.rlim_cur = files.rlim_max; setrlimit(RLIMIT_NOFILE, &files);
  prctl(PR_SET_TIMERSLACK, 1000); make_table(); input = malloc(input_room); epoll_fd = epoll_create1(0); read_plan();
  double rss = of_brokers(rss_of); u64 begun = now_ns();
  for (u32 i = 0; i < subscriber_count; i++) connect_one(&subscribers[i]);
  for (u32 i = 0; i < publisher_count; i++) connect_one(&publishers[i]);
  double set_up = (double)(now_ns() - begun) / 1e9; usleep(200000);
  double rss_idle = of_brokers(rss_of), broker_cpu = of_brokers(cpu_of), cpu = own_cpu();
  if (hold_seconds > 0) { printf("{\"connected\":%u,\"setup_s\":%.3f}\n", subscriber_count, set_up); fflush(stdout); hold(); }
  start_ns = last_ns = now_ns();
  u64 published_ns = run();
  broker_cpu = of_brokers(cpu_of) - broker_cpu; cpu = own_cpu() - cpu;
  acknowledge_all();
  print_result(set_up, rss, rss_idle, of_brokers(rss_of), broker_cpu, cpu, published_ns);
  return 0;
}
