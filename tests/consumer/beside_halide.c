/* Links libgdn.a next to another ahead-of-time Halide object that brings a runtime of its own: neither may notice the other. */
#include "check.h"
#include "other_store.h"

#include <HalideRuntime.h>

static int other_errors;

static void other_handler(void *user_context, const char *message) {
    (void)user_context;
    (void)message;
    other_errors++;
}

static int other_call(float *in, float *out, int channels) {
    halide_dimension_t dims[2] = {{0, 8, 1, 0}, {0, 2, 8, 0}};
    halide_dimension_t out_dims[2] = {{0, channels, 1, 0}, {0, 2, 8, 0}};
    halide_buffer_t a = {0}, b = {0};
    a.host = (uint8_t *)in;
    a.type.code = halide_type_float;
    a.type.bits = 32;
    a.type.lanes = 1;
    a.dimensions = 2;
    a.dim = dims;
    b = a;
    b.host = (uint8_t *)out;
    b.dim = out_dims;
    return other_store(&a, &b);
}

int main(void) {
    const struct gdn_functions gdn = {gdn_args_init, gdn_context_create, gdn_context_destroy, gdn_forward, gdn_last_error};
    float in[16], out[16];
    /* The other runtime's handler is the program's own. */
    halide_set_error_handler(other_handler);
    for (int i = 0; i < 16; i++) in[i] = (float)i;
    if (check(&gdn, 3, 7)) return 1;
    if (other_call(in, out, 8) || memcmp(in, out, sizeof in)) {
        printf("the other object computes something else\n");
        return 1;
    }
    if (other_call(in, out, 9) == 0 || other_errors != 1) { /* reads past its input: refused by its own check, told to its own handler */
        printf("the other object's error handler was called %d times\n", other_errors);
        return 1;
    }
    return check(&gdn, 3, 8);
}
