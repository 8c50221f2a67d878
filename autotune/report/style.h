// The style sheet of a report. Colours are variables, once for light and once for dark; all text and all marks keep a contrast of 4.5 (text)
// or 3 (marks) to 1 against what they stand on.
#pragma once

namespace gdn::tune {

constexpr const char *kStyle = R"css(
:root { color-scheme: light dark;
  --page: #fff; --panel: #f6f8fa; --line: #d5dae0; --text: #1b2027; --soft: #535b66; --good: #0a6b3d; --bad: #b3261e; --warn: #fff3d6; --warn-text: #5b4300;
  --best: #0a6b3d; --default: #a04a00; --faster: #2f7fb8; --slower: #9aa5b1; --dots: #8a95a1; --chip: #e9eef4;
  --c0: #0060a8; --c1: #c2410c; --c2: #00785a; --c3: #9b2c86; --c4: #6b5b00; --c5: #475160;
  --h0: #08406f; --h1: #1c629b; --h2: #3f86bd; --h3: #78aed6; --h4: #a9cce6; --h5: #cfe2f1; --h6: #e9f1f8;
  --i0: #fff; --i1: #fff; --i2: #000; --i3: #000; --i4: #000; --i5: #000; --i6: #000; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14181d; --panel: #1c2229; --line: #39424d; --text: #e8ebef; --soft: #a9b3be; --good: #5fd39a; --bad: #ff9d94; --warn: #3c2f0b; --warn-text: #ffe3a3;
  --best: #5fd39a; --default: #ffb066; --faster: #5aa9de; --slower: #626e7b; --dots: #77828e; --chip: #2b343e;
  --c0: #6cb8f5; --c1: #ff9a63; --c2: #4fd0a5; --c3: #ee94dc; --c4: #d9c552; --c5: #b4bec9;
  --h0: #bfe2ff; --h1: #93c8f0; --h2: #64a6d8; --h3: #4183b5; --h4: #2d6390; --h5: #22496b; --h6: #1b344c;
  --i0: #000; --i1: #000; --i2: #000; --i3: #000; --i4: #fff; --i5: #fff; --i6: #fff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1480px; padding: 1.5rem clamp(.8rem, 2.5vw, 2.5rem) 4rem; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 2.8rem 0 .6rem; padding-top: .9rem; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
h3 { font-size: 1.02rem; margin: 1.6rem 0 .4rem; }
p { margin: .4rem 0; max-width: 75ch; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
.warning { background: var(--warn); color: var(--warn-text); border-radius: 6px; padding: .6rem .9rem; max-width: none; }
code, .code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .9em; }
a { color: var(--c0); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .8rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: .6rem 0; border: 1px solid var(--line); border-radius: 6px; }
.scroll:focus-visible { outline: 2px solid var(--c0); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .42rem .75rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
th { background: var(--panel); color: var(--soft); font-weight: 600; }
.number { text-align: right; }
td.name { white-space: normal; overflow-wrap: anywhere; min-width: 12rem; max-width: 22rem; }
td.wide { white-space: normal; min-width: 17rem; line-height: 1.75; }
.chip { background: var(--chip); border-radius: 4px; padding: .08rem .4rem; margin-right: .3rem; white-space: nowrap; font-size: .88em; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 25rem), 1fr)); gap: 1rem; margin: 1rem 0; align-items: start; }
figure { margin: 0; padding: .8rem .8rem .6rem; background: var(--panel); border-radius: 8px; min-width: 0; }
figcaption { margin-bottom: .6rem; line-height: 1.35; } figcaption b { display: block; } figcaption span { color: var(--soft); font-size: .88rem; }
svg { display: block; width: 100%; max-width: 560px; height: auto; margin: 0 auto; overflow: visible; }
svg text { font-size: 14px; fill: var(--text); } svg .small { font-size: 13px; fill: var(--soft); } svg .axis { fill: var(--soft); }
svg .code { font-size: 13px; }
.halo { paint-order: stroke; stroke: var(--panel); stroke-width: 4px; stroke-linejoin: round; }
.grid { stroke: var(--line); } .tick { stroke: var(--soft); }
.faster { fill: var(--faster); } .slower { fill: var(--slower); }
.mark { stroke-width: 2; } .mark.default { stroke-dasharray: 5 4; }
line.best { stroke: var(--best); } line.default { stroke: var(--default); }
svg .label { font-weight: 600; } svg .label.best { fill: var(--best); } svg .label.default { fill: var(--default); }
.share { stroke: var(--soft); stroke-dasharray: 2 4; }
.curve { fill: none; stroke-width: 2.4; stroke-linejoin: round; } .band { stroke: none; opacity: .18; }
.dots { fill: none; stroke: var(--dots); stroke-width: 3.5; stroke-linecap: round; }
.curve.c0 { stroke: var(--c0); } .curve.c1 { stroke: var(--c1); stroke-dasharray: 8 3; } .curve.c2 { stroke: var(--c2); stroke-dasharray: 3 2; }
.curve.c3 { stroke: var(--c3); stroke-dasharray: 9 3 2 3; } .curve.c4 { stroke: var(--c4); stroke-dasharray: 14 4; } .curve.c5 { stroke: var(--c5); stroke-dasharray: 1.5 3; }
.band.c0 { fill: var(--c0); } .band.c1 { fill: var(--c1); } .band.c2 { fill: var(--c2); } .band.c3 { fill: var(--c3); } .band.c4 { fill: var(--c4); } .band.c5 { fill: var(--c5); }
rect.h0 { fill: var(--h0); } rect.h1 { fill: var(--h1); } rect.h2 { fill: var(--h2); } rect.h3 { fill: var(--h3); } rect.h4 { fill: var(--h4); } rect.h5 { fill: var(--h5); } rect.h6 { fill: var(--h6); }
svg .in.h0 { fill: var(--i0); } svg .in.h1 { fill: var(--i1); } svg .in.h2 { fill: var(--i2); } svg .in.h3 { fill: var(--i3); } svg .in.h4 { fill: var(--i4); } svg .in.h5 { fill: var(--i5); } svg .in.h6 { fill: var(--i6); }
rect.hole { fill: none; stroke: var(--line); } svg .in.hole { fill: var(--bad); }
.roof { stroke: var(--soft); stroke-width: 2; }
.spot { stroke-width: 2; stroke: var(--panel); } .spot.best { fill: var(--best); } .spot.default { fill: var(--panel); stroke: var(--default); stroke-width: 2.5; }
details { margin: .6rem 0; } summary { cursor: pointer; } details code { overflow-wrap: anywhere; }
@media (max-width: 600px) { body { font-size: 15px; } dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; } td.name { white-space: normal; overflow-wrap: anywhere; min-width: 12rem; max-width: 22rem; }
td.wide { min-width: 13rem; } figure { padding: .6rem .4rem; } }
@media print { figure, tr { break-inside: avoid; } }
)css";

}  // namespace gdn::tune
