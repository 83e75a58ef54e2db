/* What is asked of one row of logits at every token: the largest in order, and what the row sums to. In the caller's thread: a row is little. */
#include "numbers.h"
#include "weights.h"

enum { STRETCH = 32 };

/* Put the number at place `id` among the `there` largest so far, at most `count`: by falling value, the lower id first among equals. */
static int64_t put_in(const float *row, int64_t id, int64_t *ids, int64_t there, int64_t count) {
    int64_t place = there < count ? there : count - 1;
    while (place > 0 && row[ids[place - 1]] < row[id]) {
        ids[place] = ids[place - 1];
        place--;
    }
    ids[place] = id;
    return there < count ? there + 1 : count;
}

/* The ids of the `count` largest of [n], in order; returns how many there are, fewer where numbers are not numbers. */
API int64_t fader_largest(const float *row, int64_t n, int64_t count, int64_t *ids) {
    int64_t there = 0;
    for (int64_t start = 0; start < n; start += STRETCH) {
        int64_t end = start + STRETCH < n ? start + STRETCH : n;
        if (there == count && end - start == STRETCH) {
            v8 most = v_max(v_max(v_load(row + start), v_load(row + start + 8)), v_max(v_load(row + start + 16), v_load(row + start + 24)));
            if (v_most(most) <= row[ids[count - 1]]) continue;
        }
        for (int64_t id = start; id < end; id++) {
            if (row[id] != row[id]) continue;
            if (there < count || row[id] > row[ids[count - 1]]) there = put_in(row, id, ids, there, count);
        }
    }
    return there;
}

static float largest_of(const float *row, int64_t n) {
    v8 most = v_all(-INFINITY);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) most = v_max(v_load(row + i), most);
    float top = v_most(most);
    for (; i < n; i++) top = row[i] > top ? row[i] : top;
    return top;
}

/* found: the logarithm of the sum of e to the power of each, the mean of the row under that distribution, and how many are above -inf.
   What lies 80 below the largest counts for nothing. Of a row without a finite largest the first is that. */
API void fader_sum(const float *row, int64_t n, double *found) {
    const float top = largest_of(row, n);
    double sum = 0.0, weighed = 0.0;
    int64_t possible = 0, start = 0;
    const v8 less = v_all(-top), least = v_all(-80.0f);
    for (int64_t i = 0; i < n; i++) possible += row[i] > -INFINITY;
    found[0] = found[1] = top;
    found[2] = (double)possible;
    if (!isfinite(top)) return;
    for (; start + 512 <= n; start += 512) {
        v8 part = v_all(0.0f), moment = v_all(0.0f);
        for (int64_t i = start; i < start + 512; i += 8) {
            v8 below = v_max(v_add(v_load(row + i), less), least), power = v_exp(below);
            part = v_add(part, power);
            moment = v_fma(power, below, moment);
        }
        sum += v_sum(part);
        weighed += v_sum(moment);
    }
    for (; start < n; start++) {
        double below = row[start] - top > -80.0f ? row[start] - top : -80.0f;
        sum += exp(below);
        weighed += exp(below) * below;
    }
    found[0] = top + log(sum);
    found[1] = top + weighed / sum;
}
