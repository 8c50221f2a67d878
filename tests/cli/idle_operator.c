/* Loaded before libgdn: the entry points of operator and mixer, doing nothing. Outputs keep the NaN that the program fills them with. */
#include <gdn/gdn.h>

gdn_status gdn_forward(gdn_context *context, const gdn_args *args, void *workspace, size_t workspace_bytes) {
    (void)context, (void)args, (void)workspace, (void)workspace_bytes;
    return GDN_STATUS_OK;
}

gdn_status gdn_step(gdn_context *context, const gdn_args *args, void *workspace, size_t workspace_bytes) {
    (void)context, (void)args, (void)workspace, (void)workspace_bytes;
    return GDN_STATUS_OK;
}

gdn_status gdn_mixer_forward(gdn_context *context, const gdn_mixer_args *args, void *workspace, size_t workspace_bytes) {
    (void)context, (void)args, (void)workspace, (void)workspace_bytes;
    return GDN_STATUS_OK;
}

gdn_status gdn_mixer_step(gdn_context *context, const gdn_mixer_args *args, void *workspace, size_t workspace_bytes) {
    (void)context, (void)args, (void)workspace, (void)workspace_bytes;
    return GDN_STATUS_OK;
}
