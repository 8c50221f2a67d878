// What parent and worker (gdn.measure) say to each other: a line of JSON each, one request, one reply.
//
//   {"op": "prepare", "kernel", "family", "target", "params": {..}, "runtime": [names..], "shapes": [text_of(shape)..], "folder"}
//       `runtime`: the parameters of a configuration that need no compiler;
//       makes the double references of these shapes in `folder`; no candidate is loaded      -> {"status": "ok"}
//   {"op": "load", as before, "path", "config": {..}, "cpus": [..]}
//       `path` "": the library's own kernel of this configuration                            -> {"status": "ok"}
//   {"op": "verify"}                                                   -> {"status": "ok", "error": worst relative RMS}
//   {"op": "sample", "shape": index, "seconds": at least}              -> {"status": "ok", "ns": of one call, "calls"}
//
// Any of them may be answered by {"status": another, "text"}, and the worker may end in place of an answer.
#pragma once

namespace gdn::tune {

/// Exit code of a worker that met its memory limit inside the candidate.
inline constexpr int kOverLimitExit = 86;

}  // namespace gdn::tune
