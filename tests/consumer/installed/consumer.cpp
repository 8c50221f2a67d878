// C++ without exceptions and RTTI on the installed library.
#include "../check.h"

int main() {
    const gdn_functions gdn = {gdn_args_init, gdn_context_create, gdn_context_destroy, gdn_forward, gdn_last_error};
    return check(&gdn, 3, 1);
}
