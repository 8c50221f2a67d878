/* A plain C program on the installed library. */
#include "../check.h"

int main(void) {
    const struct gdn_functions gdn = {gdn_args_init, gdn_context_create, gdn_context_destroy, gdn_forward, gdn_last_error};
    printf("gdn %s\n", gdn_version());
    return check(&gdn, 3, 1);
}
