static inline long tw_minimum(long a, long b) { return a < b ? a : b; }
static inline long tw_maximum(long a, long b) { return a < b ? b : a; }
static inline long tw_floor_divide(long a, long b)
{
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
static inline long tw_modulo(long a, long b) { return a - tw_floor_divide(a, b) * b; }
static inline long tw_ceiling_divide(long a, long b) { return -tw_floor_divide(-a, b); }
