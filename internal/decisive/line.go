package decisive

import (
	"encoding/json"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// Weight says how much a line has to do with a failure.
type Weight int

const (
	// None: nothing of what was written says anything.
	None Weight = iota
	// Progress: a line about what a program does, such as a log line of level info.
	Progress
	// Plain: a line that could be about anything.
	Plain
	// Complaint: a line with a word such as "missing" or "refused".
	Complaint
	// Failure: a line in the form of an error of a runtime or a command, such as
	// "TypeError: x is undefined".
	Failure
)

const (
	// maxLine is the longest result, in bytes.
	maxLine = 300
	// maxRead is how much of a line is looked at, in bytes.
	maxRead = 2000
	// maxScanned is how many lines are looked at, those at the end.
	maxScanned = 100
)

// Line returns the line that says best why a program failed, and how much it has to do with
// that. Of equal lines the last one is chosen, because what a program writes last is nearest to
// its end. stderr is what it wrote, oldest line first; lines may be trimmed.
func Line(stderr []string) (text string, w Weight) {
	lines := read(stderr[max(len(stderr)-maxScanned, 0):])
	best := -1
	usage := len(lines)
	for i := range lines {
		if usage == len(lines) && isUsage(lines[i].text) {
			usage = i
		}
	}
	for i := range lines {
		l := &lines[i]
		if i > usage && l.weight < Failure { // the options that a program knows
			continue
		}
		if l.weight > None && (best < 0 || l.weight >= lines[best].weight) {
			best = i
		}
	}
	if best < 0 {
		return "", None
	}
	// A usage text says less than the plain line before it.
	if best == usage && usage > 0 && lines[usage-1].weight >= Plain {
		best = usage - 1
	}
	if best == usage {
		lines[best].weight = Complaint
	}
	if text = complete(lines, best); text == "" {
		text = lines[best].text
	}
	return display.Shorten(text, maxLine), lines[best].weight
}

// line is one line of stderr.
type line struct {
	text   string // without colours, time and level
	weight Weight
}

// read weighs lines. Those that never say anything about a failure have the weight None.
func read(stderr []string) []line {
	lines := make([]line, len(stderr))
	source := false // the next line is source code that a Python traceback quotes
	for i, raw := range stderr {
		l := &lines[i]
		l.text, l.weight = weigh(raw)
		switch {
		case pythonFrame(l.text):
			l.weight, source = None, true
			continue
		case source && l.weight < Failure:
			l.weight = None
		}
		source = false
		if i > 0 && rustPanic(lines[i-1].text) && l.weight > None { // the message has a line of its own
			lines[i-1].weight, l.weight = None, Failure
		}
	}
	return lines
}

// weigh returns a line without colours, time and level, and its weight.
func weigh(raw string) (text string, w Weight) {
	text = display.Line(display.WithoutColors(display.Prefix(raw, maxRead)))
	text = strings.TrimLeft(text, "|+ ") // the frame that Python draws around exceptions of a group
	if text, level, ok := readJSON(text); ok {
		if w = weighText(text); w == None {
			return text, None
		}
		return text, max(level, w)
	}
	text, level := withoutPrefix(text)
	switch w = weighText(text); {
	case w == None:
		return text, None
	case level == Failure:
		return text, Failure
	case level == Progress:
		return text, Progress
	}
	return text, w
}

// weighText weighs a text without time and level.
func weighText(text string) Weight {
	lower := strings.ToLower(text)
	switch {
	case isNoise(text):
		return None
	case isFailure(text):
		return Failure
	case isProgress(text, lower):
		return Progress
	case complaint(lower):
		return Complaint
	}
	return Plain
}

// readJSON reads a line of a JSON log: its message, and its level as a weight.
func readJSON(text string) (message string, w Weight, ok bool) {
	if !strings.HasPrefix(text, "{") {
		return "", None, false
	}
	var fields map[string]any
	if json.Unmarshal([]byte(text), &fields) != nil {
		return "", None, false
	}
	for _, key := range []string{"msg", "message", "error", "err"} {
		if s, isText := fields[key].(string); isText && s != "" && message == "" {
			message = s
		}
	}
	for _, key := range []string{"err", "error"} {
		inner, _ := fields[key].(map[string]any)
		if s, isText := inner["message"].(string); isText && s != "" && s != message {
			message = strings.TrimPrefix(message+": "+s, ": ")
		} else if s, isText := fields[key].(string); isText && s != message && message != "" {
			message += ": " + s
		}
	}
	if message == "" {
		return "", None, false
	}
	w = Plain
	switch level := fields["level"].(type) {
	case string:
		if w = levels[strings.ToLower(level)]; w == None {
			w = Plain
		}
	case float64: // pino: 50 is "error"
		if w = Progress; level >= 50 {
			w = Failure
		}
	}
	return display.Line(message), w, true
}

// complete returns the text of a line together with those that it announces: what follows a
// colon, the cause of an error chain, the rest of a wrapped message.
func complete(lines []line, i int) string {
	text := lines[i].text
	rest := lines[i+1:]
	next := func() string {
		for j := range rest {
			if rest[j].weight > None {
				text := rest[j].text
				rest = rest[j+1:]
				return text
			}
		}
		return ""
	}
	switch {
	case strings.HasPrefix(text, "Caused by: "): // of Rust; a Java exception says enough by itself
		for j := i - 1; j >= 0 && j > i-8; j-- {
			if strings.HasPrefix(lines[j].text, "error: ") || strings.HasPrefix(lines[j].text, "Error: ") {
				return lines[j].text + ": " + strings.TrimPrefix(text, "Caused by: ")
			}
		}
	case len(rest) > 1 && rest[0].text == "Caused by:":
		return text + ": " + strings.TrimPrefix(rest[1].text, "0: ")
	case strings.HasPrefix(text, "╰─▶ "), strings.HasPrefix(text, "× "): // uv wraps its messages
		text = strings.TrimPrefix(strings.TrimPrefix(text, "╰─▶ "), "× ")
		for j := 0; j < len(rest) && j < 6 && !endsSentence(text) && !strings.HasPrefix(rest[j].text, "hint:"); j++ {
			text += " " + strings.TrimPrefix(rest[j].text, "╰─▶ ")
		}
	case strings.HasSuffix(text, ":") && !strings.HasPrefix(text, "npm "), validationErrors(text):
		for range 2 {
			more := next()
			if more == "" || isUsage(more) {
				break
			}
			text += " " + more
			if !validationErrors(lines[i].text) {
				break
			}
		}
	}
	return strings.TrimSpace(text)
}
