/* The cores as coroutines: creation, switching, waiting for each other, reports. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "tw_runtime.h"

enum { STACK_BYTES = 128 * 1024, PAGE_BYTES = 4096, ROW_SCOPE = 0, COL_SCOPE = 1, ARRAY_SCOPE = 2 };

/* What a core group has of its own: each is started by a thread of its own. */
__thread struct tw_core tw_cores_state[TW_CORES];
__thread struct tw_core *tw_current;
__thread const struct tw_case *tw_running;
__thread void **tw_bases;
static __thread jmp_buf host_context;
static __thread void (*kernel_function)(void *);
static __thread void *kernel_argument;
static __thread void **spawned_bases;
static __thread char *ldm_memory, *stack_memory;
static __thread long ldm_step;

static const struct tw_case *whole_case;
static char *report_area;
static long report_room;

static int row_of(const struct tw_core *core) { return (int)(core - tw_cores_state) / TW_COLUMNS; }
static int column_of(const struct tw_core *core)
{
    return (int)(core - tw_cores_state) % TW_COLUMNS;
}

const char *tw_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void write_report(const char *start, const char *format, va_list arguments)
{
    long used = snprintf(report_area, report_room, "%s", start);
    vsnprintf(report_area + used, report_room - used, format, arguments);
    _exit(3);
}

void tw_report(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_report("", format, arguments);
    _exit(3);
}

void tw_report_at(const char *format, ...)
{
    char start[256];
    va_list arguments;
    va_start(arguments, format);
    snprintf(start, sizeof start, "%s:%d: core (%d, %d): ", tw_file_name(tw_current->file),
            tw_current->line, row_of(tw_current), column_of(tw_current));
    write_report(start, format, arguments);
    _exit(3);
}

void tw_at(const char *file, int line, const char *primitive)
{
    tw_current->file = file;
    tw_current->line = line;
    tw_current->primitive = primitive;
}

int tw_core_id(void) { return (int)(tw_current - tw_cores_state); }

/* ---- deadlock ------------------------------------------------------------------------------- */

static int same_place(const struct tw_core *a, const struct tw_core *b)
{
    return a->state == b->state && (a->state == TW_ENDED || a->line == b->line);
}

static void describe_state(char *text, long room, const struct tw_core *core, int cores)
{
    const char *const file = tw_file_name(core->file);
    const char *const way = core->along_row ? "row" : "column";
    static const char *const what[] = {"running", "waiting in athread_syn",
        "waiting in the matrix kernel", "waiting for room at the receiver", "waiting for a vector",
        "ended"};
    const char *const plural = cores == 1 ? "" : "s";
    long used = snprintf(text, room, "%d core%s %s", cores, plural, what[core->state]);
    if (core->state == TW_SENDING || core->state == TW_RECEIVING)
        used += snprintf(text + used, room - used, " along the %s", way);
    if (core->state != TW_ENDED)
        used += snprintf(text + used, room - used, " at %s:%d", file, core->line);
    snprintf(text + used, room - used, ", first (%d, %d)", row_of(core), column_of(core));
}

static void report_deadlock(void)
{
    char text[2048] = "";
    int seen[TW_CORES] = {0}, i, j;
    for (i = 0; i < TW_CORES; i++) {
        const struct tw_core *core = &tw_cores_state[i];
        int cores = 0;
        long used = strlen(text);
        if (seen[i])
            continue;
        for (j = i; j < TW_CORES; j++)
            if (same_place(core, &tw_cores_state[j])) {
                seen[j] = 1;
                cores++;
            }
        used += snprintf(text + used, sizeof text - used, "%s", used ? "; " : "");
        describe_state(text + used, sizeof text - used, core, cores);
    }
    tw_report("deadlock: %s", text);
}

/* ---- switching ------------------------------------------------------------------------------ */

static void resume_next(void)
{
    int start = tw_current ? tw_core_id() + 1 : 0, ended = 0, i;
    for (i = 0; i < TW_CORES; i++) {
        struct tw_core *core = &tw_cores_state[(start + i) % TW_CORES];
        ended += core->state == TW_ENDED;
        if (core->state == TW_READY) {
            tw_current = core;
            tw_running = core->running;
            tw_bases = core->bases;
            _longjmp(core->context, 1);
        }
    }
    if (ended < TW_CORES)
        report_deadlock();
    tw_current = NULL;
    _longjmp(host_context, 1);
}

void tw_suspend(enum tw_state state)
{
    tw_current->state = state;
    if (_setjmp(tw_current->context) == 0)
        resume_next();
}

static __thread ucontext_t starting_from, starting_at;

static void core_main(void)
{
    struct tw_core *self = tw_current;
    if (_setjmp(self->context) == 0)
        swapcontext(&starting_at, &starting_from);
    kernel_function(kernel_argument);
    tw_check_requests();
    self->state = TW_ENDED;
    resume_next();
}

static void start_core(int number)
{
    struct tw_core *core = &tw_cores_state[number];
    memset(core, 0, sizeof *core);
    core->ldm = ldm_memory + number * ldm_step;
    core->file = "kernel";
    core->running = tw_running;
    core->bases = tw_bases;
    getcontext(&starting_at);
    starting_at.uc_stack.ss_sp = stack_memory + (long)number * STACK_BYTES;
    starting_at.uc_stack.ss_size = STACK_BYTES;
    starting_at.uc_link = NULL;
    makecontext(&starting_at, core_main, 0);
    tw_current = core;
    swapcontext(&starting_from, &starting_at);
}

void tw_spawn(void (*kernel)(void *), void *argument)
{
    int i;
    if (!ldm_memory)
        tw_report("athread_spawn on a core group without athread_init");
    kernel_function = kernel;
    kernel_argument = argument;
    spawned_bases = realloc(spawned_bases, (tw_running->tensor_count + 1) * sizeof *tw_bases);
    tw_bases = spawned_bases;
    tw_running->describe(argument, tw_bases);
    for (i = 0; i < TW_CORES; i++)
        start_core(i);
    tw_current = NULL;
    if (_setjmp(host_context) == 0)
        resume_next();
}

static __thread const struct tw_case *around_stages;

int tw_between_stages(void) { return tw_running == around_stages; }

static void enter(const struct tw_case *which, void **bases)
{
    tw_current->running = tw_running = which;
    tw_current->bases = tw_bases = bases;
}

void tw_stage(const struct tw_case *stage, void (*kernel)(void *), void *argument)
{
    const struct tw_case *const around = around_stages = tw_running;
    void **const bases_around = tw_bases;
    void *bases[stage->tensor_count + 1];
    stage->describe(argument, bases);
    enter(stage, bases);
    kernel(argument);
    tw_check_requests();
    enter(around, bases_around);
}

/* ---- synchronisation ------------------------------------------------------------------------ */

static int in_group(const struct tw_core *core, int scope)
{
    return scope == ARRAY_SCOPE || (scope == ROW_SCOPE && row_of(core) == row_of(tw_current))
        || (scope == COL_SCOPE && column_of(core) == column_of(tw_current));
}

/* Whether all other cores of the group wait in `state`; if so they become ready. */
static int release_group(enum tw_state state, int scope)
{
    int i;
    for (i = 0; i < TW_CORES; i++) {
        const struct tw_core *core = &tw_cores_state[i];
        int waits = core->state == state && (state != TW_SYNCHRONISING || core->scope == scope);
        if (core != tw_current && in_group(core, scope) && !waits)
            return 0;
    }
    if (state == TW_MULTIPLYING)
        tw_multiply();
    for (i = 0; i < TW_CORES; i++)
        if (in_group(&tw_cores_state[i], scope))
            tw_cores_state[i].state = TW_READY;
    return 1;
}

void tw_synchronise(const char *file, int line, int scope, int mask)
{
    tw_at(file, line, "athread_syn");
    if (scope < ROW_SCOPE || scope > ARRAY_SCOPE || mask != (scope == ARRAY_SCOPE ? 0xffff : 0xff))
        tw_report_at("athread_syn with scope %d and mask 0x%x is not emulated", scope, mask);
    tw_current->scope = scope;
    if (!release_group(TW_SYNCHRONISING, scope))
        tw_suspend(TW_SYNCHRONISING);
}

static void multiply_together(struct tw_gemm_call call)
{
    tw_current->gemm = call;
    if (!release_group(TW_MULTIPLYING, ARRAY_SCOPE))
        tw_suspend(TW_MULTIPLYING);
}

void tw_gemm(const char *file, int line, int element_bytes, int m, int n, int k, double alpha,
        double beta, int vector, struct tw_matrix a, struct tw_matrix b, struct tw_matrix c,
        void *workspace)
{
    struct tw_gemm_call call = {element_bytes, m, n, k, vector, alpha, beta, a, b, c, workspace, 1};
    tw_at(file, line, element_bytes == 8 ? "spm_gemm_f64" : "spm_gemm_f32");
    multiply_together(call);
}

void tw_routine(int element_bytes, int m, int n, int k, int vector, struct tw_matrix a,
        struct tw_matrix b, struct tw_matrix c, void *workspace)
{
    tw_gemm(tw_current->file, tw_current->line, element_bytes, m, n, k, 1, 1, vector, a, b, c,
            workspace);
}

void tw_chain_routine(int links, const void *const *pairs, int element_bytes, int m, int n, int k,
        int vector, struct tw_matrix a, struct tw_matrix b, struct tw_matrix c)
{
    struct tw_gemm_call call = {element_bytes, m, n, k, vector, 1, 1, a, b, c, 0, links, pairs};
    tw_at(tw_current->file, tw_current->line,
            element_bytes == 8 ? "spm_gemm_chain_f64" : "spm_gemm_chain_f32");
    multiply_together(call);
}

/* ---- register communication ----------------------------------------------------------------- */

static void wake(struct tw_core *core, enum tw_state state, int along_row)
{
    if (core->state == state && core->along_row == along_row)
        core->state = TW_READY;
}

static void deliver(struct tw_core *to, int along_row, const void *vector)
{
    struct tw_queue *queue = along_row ? &to->from_row : &to->from_column;
    while (queue->length == TW_QUEUE)
        tw_suspend(TW_SENDING);
    memcpy(queue->vectors[(queue->first + queue->length++) % TW_QUEUE], vector, TW_VECTOR_BYTES);
    wake(to, TW_RECEIVING, along_row);
}

void tw_send(const char *file, int line, int along_row, const void *vector, int target)
{
    int row = row_of(tw_current), column = column_of(tw_current), i;
    tw_at(file, line, along_row ? "simd_putr" : "simd_putc");
    tw_current->along_row = along_row;
    if (target == (along_row ? column : row))
        tw_report_at("a core cannot send a vector to itself");
    for (i = 0; i < (along_row ? TW_COLUMNS : TW_ROWS); i++)
        if (i != (along_row ? column : row) && (target >= 8 || target == i))
            deliver(&tw_cores_state[along_row ? row * TW_COLUMNS + i : i * TW_COLUMNS + column],
                    along_row, vector);
}

void tw_receive(const char *file, int line, int along_row, void *vector)
{
    struct tw_queue *queue = along_row ? &tw_current->from_row : &tw_current->from_column;
    int i;
    tw_at(file, line, along_row ? "simd_getr" : "simd_getc");
    tw_current->along_row = along_row;
    while (queue->length == 0)
        tw_suspend(TW_RECEIVING);
    memcpy(vector, queue->vectors[queue->first], TW_VECTOR_BYTES);
    queue->first = (queue->first + 1) % TW_QUEUE;
    queue->length--;
    for (i = 0; i < TW_CORES; i++)
        wake(&tw_cores_state[i], TW_SENDING, along_row);
}

/* ---- one case ------------------------------------------------------------------------------- */

static void on_signal(int number)
{
    const char *what = number == SIGFPE ? "divided by zero" : "used an address outside its LDM";
    if (!tw_current)
        tw_report("the host code stopped with signal %d", number);
    tw_report_at("%s after this statement", what);
}

static void catch_signals(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    static __thread char stack[32768];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    unsigned i;
    sigaltstack(&alternate, NULL);
    for (i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

static char *map(long bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        tw_report("no memory for %ld bytes", bytes);
    return memory;
}

/* LDMs with as much between them that nobody may touch. */
static void map_memories(long scratchpad_bytes)
{
    const long bytes = (scratchpad_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    int i;
    ldm_step = 2 * bytes;
    ldm_memory = map(TW_CORES * ldm_step);
    stack_memory = map((long)TW_CORES * STACK_BYTES);
    for (i = 0; i < TW_CORES; i++)
        mprotect(ldm_memory + i * ldm_step + bytes, bytes, PROT_NONE);
}

void tw_initialise(void)
{
    if (ldm_memory)
        tw_report("athread_init of a core group that has been initialised");
    if (!tw_running)
        tw_running = whole_case;
    map_memories(whole_case->scratchpad_bytes);
    catch_signals();
}

void tw_run_case(const struct tw_case *which, void **memory, char *report, long report_bytes)
{
    int failed;
    report_area = report;
    report_room = report_bytes;
    whole_case = tw_running = which;
    catch_signals();
    failed = which->run(memory);
    if (failed)
        tw_report("the entry function returned %d", failed);
}
