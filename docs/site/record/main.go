// Command record draws what the demo prints as a moving picture: lines of its input come at the times that they begin
// with. A reader who wants no motion sees the last ones.
//
//	go run ./cmd/demo | (cd docs/site && go run ./record) > docs/images/demo.svg
package main

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
)

const (
	rows   = 30  // lines that are seen at a time
	height = 18  // of a line
	width  = 760 // of the picture
	rest   = 8.0 // seconds between the end and the next beginning
)

// stamped is a line with its time and its verb.
var stamped = regexp.MustCompile(`^ *(\d+\.\d)s  (\w+)`)

// classes are the colours of verbs.
var classes = map[string]string{"ready": "good", "stable": "good", "PASS": "good", "KILL": "bad", "BREAK": "bad", "HANG": "bad",
	"evict": "bad", "failed": "bad", "FAIL": "bad", "down": "bad", "retry": "slow", "storm": "slow"}

func main() {
	if err := record(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// record draws the lines of in. It is an error if they do not end with PASS, so that no failure is drawn.
func record(in io.Reader, out io.Writer) error {
	var lines, shown []string
	var times []float64
	at, passed := 0.0, false
	for scanner := bufio.NewScanner(in); scanner.Scan(); {
		line := scanner.Text()
		verb, _, _ := strings.Cut(line, " ")
		if found := stamped.FindStringSubmatch(line); found != nil {
			at, _ = strconv.ParseFloat(found[1], 64)
			verb = found[2]
		}
		passed = passed || verb == "PASS"
		lines = append(lines, line)
		times = append(times, at)
		shown = append(shown, fmt.Sprintf(`<text class="%s" x="12" y="%d" xml:space="preserve">%s</text>`, classes[verb], height*len(lines), html.EscapeString(line)))
	}
	if !passed {
		return fmt.Errorf("the demo has not printed PASS: %d lines were read", len(lines))
	}
	var frames strings.Builder
	total := at + rest
	for i, t := range times {
		if i+1 < len(times) && times[i+1] == t {
			continue
		}
		fmt.Fprintf(&frames, "%.2f%%{transform:translateY(%dpx)}", 100*t/total, height*(rows-i-1))
	}
	end := height * (rows - len(lines))
	_, err := fmt.Fprintf(out, picture, width, height*rows+8, total, end, frames.String(), end, width, height*rows+8, strings.Join(shown, "\n"))
	return err
}

const picture = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title desc" font-family="ui-monospace, monospace" font-size="13">
<title id="title">The demo of mcpvisor</title>
<desc id="desc">A terminal, in which go run ./cmd/demo starts six servers, kills them, lets them hang and forget their sessions, prints what follows with times, and ends with PASS.</desc>
<style>
text{fill:#1c2024}.paper{fill:#f4f6f8;stroke:#d8dee4}.good{fill:#1f7f52}.bad{fill:#c23c38}.slow{fill:#8f6f00}
@media (prefers-color-scheme: dark){text{fill:#e3e7eb}.paper{fill:#14171a;stroke:#353c43}.good{fill:#5bd69c}.bad{fill:#ff8a84}.slow{fill:#e0bd4f}}
#lines{animation:roll %.1fs step-end infinite;transform:translateY(%dpx)}
@keyframes roll{%s100%%{transform:translateY(%dpx)}}
@media (prefers-reduced-motion: reduce){#lines{animation:none}}
</style>
<rect class="paper" width="%d" height="%d" rx="6"/>
<g id="lines">
%s
</g>
</svg>
`
