/* A runtime that computes nothing: what each core asks of memory, waits for and calls, in order, goes
 * to standard output. Control never depends on data, so cores run one after the other, and addresses
 * are places that nothing may touch. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tw_emulation.h"
#include "tw_recording.h"

enum { GET, PUT, WAIT, CALL, SYNCHRONISE };
enum { INTEGER, NUMBER, PLACE, WORDS, LIST };
enum { EVENT_WORDS = 8, MOST_REPLIES = 256, MOST_ARGUMENT_WORDS = 4096, TABLE = 1 << 16 };
#define LDM 0x10000000L
#define TENSOR 0x10000000000L

struct words {
    long *start, count, room;
};

static struct words events, calls;
static long known[TABLE], arguments[MOST_ARGUMENT_WORDS], argument_words, most_events;
static const void *replies[MOST_REPLIES];
static int core, reply_count;

void tw_kernel(void *parameters);
extern const int tw_tensors;

static void refuse(const char *format, ...)
{
    va_list given;
    va_start(given, format);
    vfprintf(stderr, format, given);
    exit(3);
}

int tw_refused(const char *format, ...)
{
    refuse("the dispatch has no routine for a product");
    return 0;
}

static void add(struct words *to, const long *from, long count)
{
    while (to->count + count > to->room) {
        to->room = to->room ? 2 * to->room : 1 << 16;
        to->start = realloc(to->start, to->room * sizeof *to->start);
        if (!to->start)
            refuse("no memory for the record");
    }
    memcpy(to->start + to->count, from, count * sizeof *from);
    to->count += count;
}

static void event(long kind, long line, long subject, long memory, long size, long stride,
        long block)
{
    const long words[EVENT_WORDS] = {kind, line, subject, memory, size, stride, block, core};
    if (events.count / EVENT_WORDS >= most_events)
        refuse("more than %ld statements", most_events);
    add(&events, words, EVENT_WORDS);
}

static long reply_number(const volatile void *reply)
{
    int i;
    for (i = 0; i < reply_count; i++)
        if (replies[i] == reply)
            return i;
    if (reply_count == MOST_REPLIES)
        refuse("more than %d reply words", MOST_REPLIES);
    replies[reply_count] = (const void *)reply;
    return reply_count++;
}

int tw_core_id(void) { return core; }

void *tw_ldm_malloc(const char *file, int line, long bytes) { return (void *)LDM; }

void tw_ldm_free(const char *file, int line, void *pointer, long bytes) { }

int tw_get(const char *file, int line, int mode, const void *source, void *target, long size,
        void *reply, long stride, long block)
{
    event(GET, line, reply_number(reply), (long)source, size, stride, block ? block : size);
    return 0;
}

int tw_put(const char *file, int line, int mode, const void *source, void *target, long size,
        void *reply, long stride, long block)
{
    event(PUT, line, reply_number(reply), (long)target, size, stride, block ? block : size);
    return 0;
}

void tw_wait(const char *file, int line, volatile int *reply, int count)
{
    event(WAIT, line, reply_number(reply), 0, 0, 0, 0);
}

void tw_synchronise(const char *file, int line, int scope, int mask)
{
    event(SYNCHRONISE, line, scope, 0, 0, 0, 0);
}

static void argument(long tag, const long *words, long count)
{
    if (argument_words + count + 2 > MOST_ARGUMENT_WORDS)
        refuse("a call has more than %d words of arguments", MOST_ARGUMENT_WORDS);
    arguments[argument_words++] = tag;
    arguments[argument_words++] = count;
    memcpy(arguments + argument_words, words, count * sizeof *words);
    argument_words += count;
}

void tw_integer(long value, long bytes) { argument(INTEGER, &value, 1); }

void tw_number(double value, long bytes)
{
    long bits;
    memcpy(&bits, &value, sizeof bits);
    argument(NUMBER, &bits, 1);
}

void tw_place(const void *place, long bytes)
{
    const long from_start = place ? (const char *)place - (const char *)LDM : 0;
    argument(PLACE, &from_start, 1);
}

void tw_words(const void *words, long bytes) { argument(WORDS, words, bytes / sizeof(long)); }

void tw_list(const void *places, long bytes)
{
    long from_start[MOST_ARGUMENT_WORDS];
    long i, count = bytes / sizeof(long);
    memcpy(from_start, places, bytes);
    for (i = 0; i < count; i++)
        from_start[i] -= LDM;
    argument(LIST, from_start, count);
}

void tw_call(int routine)
{
    argument_words = 2;
    arguments[1] = routine;
}

static unsigned long hash_of(const long *words, long count)
{
    unsigned long hash = 1469598103934665603UL;
    while (count--)
        hash = (hash ^ (unsigned long)*words++) * 1099511628211UL;
    return hash ^ hash >> 29;
}

/* A call's number: the word at which its arguments start, the same for equal arguments. */
void tw_called(int line)
{
    unsigned long at;
    arguments[0] = argument_words;
    at = hash_of(arguments, argument_words) % TABLE;
    for (; known[at]; at = (at + 1) % TABLE)
        if (!memcmp(calls.start + known[at] - 1, arguments, argument_words * sizeof *arguments))
            break;
    if (!known[at]) {
        known[at] = calls.count + 1;
        add(&calls, arguments, argument_words);
    }
    event(CALL, line, known[at] - 1, 0, 0, 0, 0);
}

int main(int count, char **given)
{
    const void *parameters[tw_tensors + 1];
    long sizes[2];
    int i;
    most_events = count == 2 ? atol(given[1]) : 0;
    for (i = 0; i < tw_tensors; i++)
        parameters[i] = (const char *)(TENSOR * (i + 1));
    for (core = 0; core < TW_CORES; core++) {
        reply_count = 0;
        tw_kernel(parameters);
    }
    sizes[0] = events.count;
    sizes[1] = calls.count;
    fwrite(sizes, sizeof sizes, 1, stdout);
    fwrite(events.start, sizeof(long), events.count, stdout);
    fwrite(calls.start, sizeof(long), calls.count, stdout);
    return fflush(stdout) != 0;
}
