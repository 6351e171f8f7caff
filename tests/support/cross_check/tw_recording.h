/* Included between the generated headers and the generated code of the cores: each call of a routine
 * becomes a record of its arguments. An array is told from a pointer by its size. */
#ifndef TW_RECORDING_H
#define TW_RECORDING_H

void tw_integer(long value, long bytes);
void tw_number(double value, long bytes);
void tw_place(const void *place, long bytes);
void tw_words(const void *words, long bytes);
void tw_list(const void *places, long bytes);
void tw_call(int routine);
void tw_called(int line);

#define TW_ARGUMENT(x) \
    _Generic((x), const long *: tw_words, long *: tw_words, double: tw_number, float: tw_number, \
            const double *const *: tw_list, const float *const *: tw_list, const double **: tw_list, \
            const float **: tw_list, const double *: tw_place, double *: tw_place, \
            const float *: tw_place, float *: tw_place, default: tw_integer)(x, sizeof(x))

#define TW_1(x) TW_ARGUMENT(x)
#define TW_2(x, ...) TW_ARGUMENT(x), TW_1(__VA_ARGS__)
#define TW_3(x, ...) TW_ARGUMENT(x), TW_2(__VA_ARGS__)
#define TW_4(x, ...) TW_ARGUMENT(x), TW_3(__VA_ARGS__)
#define TW_5(x, ...) TW_ARGUMENT(x), TW_4(__VA_ARGS__)
#define TW_6(x, ...) TW_ARGUMENT(x), TW_5(__VA_ARGS__)
#define TW_7(x, ...) TW_ARGUMENT(x), TW_6(__VA_ARGS__)
#define TW_8(x, ...) TW_ARGUMENT(x), TW_7(__VA_ARGS__)
#define TW_9(x, ...) TW_ARGUMENT(x), TW_8(__VA_ARGS__)
#define TW_PICK(_1, _2, _3, _4, _5, _6, _7, _8, _9, each, ...) each
#define TW_EACH(...) \
    TW_PICK(__VA_ARGS__, TW_9, TW_8, TW_7, TW_6, TW_5, TW_4, TW_3, TW_2, TW_1)(__VA_ARGS__)
#define TW_RECORD(routine, ...) (tw_call(routine), TW_EACH(__VA_ARGS__), tw_called(__LINE__))

#endif
