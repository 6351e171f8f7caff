/* LDM and DMA: allocation, requests checked when they are issued, carried out when they are waited
 * for. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tw_runtime.h"

enum { PE_MODE = 0, MISALIGNMENT = 8 };

static __thread char note[256];

/* The allocator's address is no multiple of a vector, as nothing promises that it is. */
static char *heap(const struct tw_core *core) { return core->ldm + MISALIGNMENT; }

/* Where the generated code puts the first buffer. */
static char *buffers_start(const struct tw_core *core)
{
    const unsigned long unit = tw_running->alignment_bytes;
    return (char *)(((unsigned long)heap(core) + unit - 1) / unit * unit);
}

void *tw_ldm_malloc(const char *file, int line, long bytes)
{
    long room = tw_running->scratchpad_bytes - MISALIGNMENT - tw_current->allocated;
    char *place = heap(tw_current) + tw_current->allocated;
    tw_at(file, line, "ldm_malloc");
    if (bytes > room)
        tw_report_at("ldm_malloc of %ld bytes, the LDM has %ld left", bytes, room);
    memset(place, 0xff, bytes);
    tw_current->allocated += bytes;
    return place;
}

void tw_ldm_free(const char *file, int line, void *pointer, long bytes)
{
    tw_at(file, line, "ldm_free");
    if ((char *)pointer + bytes != heap(tw_current) + tw_current->allocated)
        tw_report_at("ldm_free of %ld bytes that were not allocated last", bytes);
    tw_current->allocated -= bytes;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* The slot of buffer `b` that holds the whole range, or -1; `first` is relative to the buffers. */
static long slot_of(const struct tw_buffer *b, long first, long bytes)
{
    const long slot = b->slot_bytes > 0 ? (first - b->offset) / b->slot_bytes : 0;
    const long end = b->offset + (slot + 1) * b->slot_bytes;
    return first < b->offset || slot >= b->copies || first + bytes > end ? -1 : slot;
}

static int inside_a_slot(const char *start, long bytes)
{
    const long first = start - buffers_start(tw_current);
    int i;
    for (i = 0; i < tw_running->buffer_count; i++)
        if (slot_of(&tw_running->buffers[i], first, bytes) >= 0)
            return 1;
    return 0;
}

const char *tw_slot_name(const void *start, long bytes)
{
    static __thread char name[160];
    const long first = (const char *)start - buffers_start(tw_current);
    long used = 0;
    int i;
    for (i = 0; i < tw_running->buffer_count && used < (long)sizeof name; i++) {
        const struct tw_buffer *const b = &tw_running->buffers[i];
        const long slot = slot_of(b, first, bytes);
        /* Buffers that are never alive together share addresses. */
        if (slot >= 0)
            used += snprintf(name + used, sizeof name - used, used ? " or %s[%ld]" : "%s[%ld]",
                    b->name, slot);
    }
    return used ? name : NULL;
}

static void check_local(const char *what, const char *start, long bytes)
{
    const long first = start - buffers_start(tw_current);
    const char *name;
    if (inside_a_slot(start, bytes))
        return;
    if (start < heap(tw_current) || start + bytes > heap(tw_current) + tw_current->allocated)
        tw_report_at("%s of %ld bytes at LDM byte %ld is outside the allocated region", what, bytes,
                first);
    name = tw_slot_name(start, 1);
    if (!name)
        tw_report_at("%s of %ld bytes at LDM byte %ld starts in no buffer", what, bytes, first);
    tw_report_at("%s of %ld bytes from %s on leaves its slot", what, bytes, name);
}

/* Of tensors in the same memory, as a state before and after its update, a put's is written. */
static int find_tensor(const char *memory, int get)
{
    int i, found = -1;
    for (i = 0; i < tw_running->tensor_count; i++) {
        const char *const base = tw_bases[i];
        if (memory < base || memory >= base + tw_running->tensors[i].bytes)
            continue;
        if (get || tw_running->tensors[i].writable)
            return i;
        if (found < 0)
            found = i;
    }
    return found;
}

static int check_memory(const char *what, const struct tw_request *r)
{
    const long blocks = r->size / r->block;
    const char *end = r->memory + (blocks - 1) * (r->block + r->stride) + r->block;
    const int tensor = find_tensor(r->memory, r->get);
    const struct tw_tensor *t = tw_running->tensors + (tensor < 0 ? 0 : tensor);
    long nearest = -1;
    int i, near = 0;
    if (tensor >= 0 && end <= (char *)tw_bases[tensor] + t->bytes && r->stride >= 0)
        return tensor;
    if (tensor >= 0)
        tw_report_at("%s of bytes %ld to %ld of tensor %s, which has %ld", what,
                (long)(r->memory - (char *)tw_bases[tensor]),
                (long)(end - (char *)tw_bases[tensor]) - 1, t->name, t->bytes);
    for (i = 0; i < tw_running->tensor_count; i++) {
        const char *const base = tw_bases[i], *const behind = base + tw_running->tensors[i].bytes;
        const long distance = r->memory < base ? base - r->memory : r->memory - behind;
        if (nearest < 0 || distance < nearest) {
            nearest = distance;
            near = i;
        }
    }
    tw_report_at("%s outside every tensor, at byte %ld from the start of tensor %s", what,
            (long)(r->memory - (char *)tw_bases[near]), tw_running->tensors[near].name);
}

/* ---- outstanding requests ------------------------------------------------------------------- */

static void check_conflict(const char *what, const char *start, long bytes, int writes)
{
    int i;
    for (i = 0; i < tw_current->request_count; i++) {
        const struct tw_request *r = &tw_current->requests[i];
        const int overlap = start < r->local + r->size && r->local < start + bytes;
        const char *name;
        if (!overlap || (!r->get && !writes))
            continue;
        name = tw_slot_name(r->local, r->size);
        tw_report_at("%s uses %s while the %s at %s:%d on it is outstanding", what, name,
                r->get ? "get" : "put", tw_file_name(r->file), r->line);
    }
}

void tw_touch(const void *start, long bytes, int writes)
{
    if (bytes <= 0)
        return;
    check_local(tw_current->primitive, start, bytes);
    check_conflict(tw_current->primitive, start, bytes, writes);
}

static void add_request(struct tw_request request)
{
    struct tw_core *core = tw_current;
    if (core->request_count == core->request_room) {
        core->request_room = core->request_room ? 2 * core->request_room : 16;
        core->requests = realloc(core->requests, core->request_room * sizeof *core->requests);
    }
    core->requests[core->request_count++] = request;
}

static int issue(const char *file, int line, int mode, struct tw_request r)
{
    const char *what = r.get ? "athread_get" : "athread_put";
    tw_at(file, line, what);
    r.file = file;
    r.line = line;
    if (mode != PE_MODE)
        tw_report_at("%s in mode %d is not emulated, only PE_MODE", what, mode);
    if (r.block == 0)
        r.block = r.size;
    if (r.size <= 0 || r.block < 0 || r.size % r.block)
        tw_report_at("%s of %ld bytes in blocks of %ld", what, r.size, r.block);
    if ((r.size | r.block | r.stride | (long)r.memory | (long)r.local) % 4)
        tw_report_at("%s of addresses or sizes that are no multiples of 4 bytes", what);
    check_local(what, r.local, r.size);
    r.tensor = check_memory(what, &r);
    if (!r.get && !tw_running->tensors[r.tensor].writable)
        tw_report_at("athread_put writes input tensor %s", tw_running->tensors[r.tensor].name);
    check_conflict(what, r.local, r.size, r.get);
    add_request(r);
    return 0;
}

int tw_get(const char *file, int line, int mode, const void *source, void *target, long size,
        void *reply, long stride, long block)
{
    struct tw_request r = {1, (char *)source, target, size, stride, block, reply, 0, file, line};
    return issue(file, line, mode, r);
}

int tw_put(const char *file, int line, int mode, const void *source, void *target, long size,
        void *reply, long stride, long block)
{
    struct tw_request r = {0, target, (char *)source, size, stride, block, reply, 0, file, line};
    return issue(file, line, mode, r);
}

/* ---- unwritten LDM -------------------------------------------------------------------------- */

void tw_note_unwritten(const void *element, int core)
{
    struct tw_core *const before = tw_current;
    const char *name;
    if (note[0])
        return;
    tw_current = &tw_cores_state[core];
    name = tw_slot_name(element, 1);
    snprintf(note, sizeof note, "; %s at %s:%d read unwritten elements of %s on core (%d, %d)",
            tw_current->primitive, tw_file_name(tw_current->file), tw_current->line,
            name ? name : "no buffer", core / TW_COLUMNS, core % TW_COLUMNS);
    tw_current = before;
}

static void check_written(const struct tw_request *r)
{
    const struct tw_tensor *t = &tw_running->tensors[r->tensor];
    long i;
    for (i = 0; i < r->size; i += t->element_bytes)
        if (tw_is_unwritten(r->local + i, t->element_bytes)) {
            tw_at(r->file, r->line, "athread_put");
            tw_report_at("element %ld of %s goes to output %s and was never written%s",
                    i / t->element_bytes, tw_slot_name(r->local, r->size), t->name, note);
        }
}

/* ---- delivery ------------------------------------------------------------------------------- */

static void carry_out(const struct tw_request *r)
{
    char *memory = r->memory, *local = r->local;
    long done;
    if (!r->get && tw_running->tensors[r->tensor].is_checked)
        check_written(r);
    for (done = 0; done < r->size; done += r->block) {
        if (r->get)
            memcpy(local, memory, r->block);
        else
            memcpy(memory, local, r->block);
        local += r->block;
        memory += r->block + r->stride;
    }
    *r->reply += 1;
}

void tw_wait(const char *file, int line, volatile int *reply, int count)
{
    int i, kept = 0;
    tw_at(file, line, "dma_wait");
    for (i = 0; i < tw_current->request_count; i++) {
        const struct tw_request r = tw_current->requests[i];
        if (r.reply == reply)
            carry_out(&r);
        else
            tw_current->requests[kept++] = r;
    }
    tw_current->request_count = kept;
    tw_at(file, line, "dma_wait");
    if (tw_between_stages())
        sched_yield(); /* it may wait for groups that have no processor meanwhile */
    if (*reply != count)
        tw_report_at("dma_wait for %d replies never ends: %d have come, no request is outstanding",
                count, *reply);
}

void tw_check_requests(void)
{
    const struct tw_request *r = tw_current->requests;
    if (tw_current->request_count == 0)
        return;
    tw_at(r->file, r->line, r->get ? "athread_get" : "athread_put");
    tw_report_at("the %s on %s is never waited for", r->get ? "get" : "put",
            tw_slot_name(r->local, r->size));
}
