/* A small call of the library, checked against the recurrence. Plain C, and the functions come in a struct, so that every kind of consumer can use
 * it, dlopen included. */
#ifndef GDN_TESTS_CONSUMER_CHECK_H
#define GDN_TESTS_CONSUMER_CHECK_H

#include <gdn/gdn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct gdn_functions {
    void (*args_init)(gdn_args *);
    gdn_status (*context_create)(const gdn_context_options *, gdn_context **);
    void (*context_destroy)(gdn_context *);
    gdn_status (*forward)(gdn_context *, const gdn_args *, void *, size_t);
    const char *(*last_error)(void);
};

enum { kT = 19, kHeads = 2, kK = 16, kV = 32 };

struct check_data {
    float q[kT][kHeads][kK], k[kT][kHeads][kK], v[kT][kHeads][kV], g[kT][kHeads][kK], beta[kT][kHeads];
    float o[kT][kHeads][kV], state[kHeads][kK][kV];
};

static float check_random(uint32_t *seed) { /* uniform in [0, 1) */
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 16777216.0f;
}

static gdn_tensor check_view(void *data, int32_t ndim, const int64_t *shape) {
    gdn_tensor t;
    int64_t stride = 1;
    memset(&t, 0, sizeof t);
    t.data = data;
    t.dtype = GDN_DTYPE_F32;
    t.ndim = ndim;
    for (int32_t i = ndim - 1; i >= 0; i--) {
        t.shape[i] = shape[i];
        t.strides[i] = stride;
        stride *= shape[i];
    }
    return t;
}

static void check_fill(struct check_data *d, gdn_args *args, uint32_t seed) {
    const int64_t keys[4] = {1, kT, kHeads, kK}, values[4] = {1, kT, kHeads, kV}, state[4] = {1, kHeads, kK, kV};
    for (int t = 0; t < kT; t++) {
        for (int h = 0; h < kHeads; h++) {
            for (int c = 0; c < kK; c++) {
                d->q[t][h][c] = check_random(&seed) - 0.5f;
                d->k[t][h][c] = 0.5f * (check_random(&seed) - 0.5f);
                d->g[t][h][c] = -check_random(&seed);
            }
            for (int c = 0; c < kV; c++) d->v[t][h][c] = check_random(&seed) - 0.5f;
            d->beta[t][h] = check_random(&seed);
        }
    }
    args->variant = GDN_VARIANT_KDA;
    args->q = check_view(d->q, 4, keys);
    args->k = check_view(d->k, 4, keys);
    args->v = check_view(d->v, 4, values);
    args->g = check_view(d->g, 4, keys);
    args->beta = check_view(d->beta, 3, keys);
    args->o = check_view(d->o, 4, values);
    args->final_state = check_view(d->state, 4, state);
}

/* Worst difference of o and the final state from S = (I - beta k k^T) Diag(exp g) S + beta k v^T, o = K^-0.5 S^T q in double. */
static double check_error(const struct check_data *d) {
    double worst = 0;
    for (int h = 0; h < kHeads; h++) {
        double s[kK][kV];
        memset(s, 0, sizeof s);
        for (int t = 0; t < kT; t++) {
            for (int j = 0; j < kV; j++) {
                double kept = 0, o = 0;
                for (int i = 0; i < kK; i++) {
                    s[i][j] *= exp((double)d->g[t][h][i]);
                    kept += d->k[t][h][i] * s[i][j];
                }
                for (int i = 0; i < kK; i++) {
                    s[i][j] += d->beta[t][h] * d->k[t][h][i] * (d->v[t][h][j] - kept);
                    o += d->q[t][h][i] * s[i][j];
                }
                o *= 1 / sqrt((double)kK);
                worst = fmax(worst, fabs(o - d->o[t][h][j]));
            }
        }
        for (int i = 0; i < kK; i++) {
            for (int j = 0; j < kV; j++) worst = fmax(worst, fabs(s[i][j] - d->state[h][i][j]));
        }
    }
    return isnan(worst) ? 1 : worst;
}

/* 0 if `rounds` calls on a context of their own give the right numbers and a wrong call gives its code. */
static inline int check(const struct gdn_functions *gdn, int rounds, uint32_t seed) {
    struct check_data d;
    gdn_args args;
    gdn_context *context = NULL;
    int failed = 0;
    if (gdn->context_create(NULL, &context) != GDN_STATUS_OK) {
        printf("gdn_context_create: %s\n", gdn->last_error());
        return 1;
    }
    for (int round = 0; round < rounds && !failed; round++) {
        memset(d.o, 0xff, sizeof d.o); /* NaN */
        gdn->args_init(&args);
        check_fill(&d, &args, seed + (uint32_t)round);
        if (gdn->forward(context, &args, NULL, 0) != GDN_STATUS_OK) {
            printf("gdn_forward: %s\n", gdn->last_error());
            failed = 1;
        } else if (!(check_error(&d) < 1e-5)) {
            printf("error %g\n", check_error(&d));
            failed = 1;
        }
        args.q.shape[3] = kK - 1;
        if (!failed && (gdn->forward(context, &args, NULL, 0) != GDN_STATUS_INVALID_ARGUMENT || !gdn->last_error()[0])) {
            printf("a call with a wrong shape was not refused\n");
            failed = 1;
        }
    }
    gdn->context_destroy(context);
    return failed;
}

#endif
