package hosts

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
)

// withoutEffect are keys of mcpvisor that have no effect there, or that convert to others.
var withoutEffect = []string{"autoApprove", "alwaysAllow", "timeout"}

// knownKeys are the keys of an entry that are kept as they are.
var knownKeys = func() (keys []string) {
	for _, k := range config.Keys() {
		if !strings.Contains(k.Name, ".") {
			keys = append(append(keys, k.Name), k.Aliases...)
		}
	}
	return slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(withoutEffect, key) })
}()

// common converts an entry of a host whose keys are those of mcpvisor. It leaves out keys
// that mean nothing there, and says which.
func common(entry object) (object, []string, error) {
	var converted object
	var left []string
	for _, m := range entry {
		switch {
		case m.Value == nil: // the same as no key
		case slices.Contains(knownKeys, m.Key):
			converted.Set(m.Key, m.Value)
		default:
			left = append(left, m.Key)
		}
	}
	return converted, leftOut(left), nil
}

// leftOut is the note about keys that were left out.
func leftOut(keys []string) []string {
	if len(keys) == 0 {
		return nil
	}
	return []string{"left out, because mcpvisor has no such key: " + strings.Join(keys, ", ")}
}

// withMilliseconds is common for a host whose "timeout" is that of a call in milliseconds.
func withMilliseconds(entry object) (object, []string, error) {
	rest, timeout := take(entry, "timeout")
	converted, notes, err := common(rest)
	return setCallTimeout(converted, timeout, time.Millisecond), notes, err
}

// gemini converts an entry of Gemini CLI: "httpUrl" wins over "url".
func gemini(entry object) (object, []string, error) {
	if entry.Get("httpUrl") != nil {
		var httpURL any
		entry, _ = take(entry, "url")
		entry, httpURL = take(entry, "httpUrl")
		entry.Set("url", httpURL)
	}
	return withMilliseconds(entry)
}

// zed converts an entry of Zed, whose "command" was an object in older versions.
func zed(entry object) (object, []string, error) {
	entry, source := take(entry, "source")
	if source == "extension" || entry.Get("command") == nil && entry.Get("url") == nil {
		return nil, nil, errors.New("an extension of Zed starts it, so there is no command; install the server by itself")
	}
	if command, ok := entry.Get("command").(object); ok {
		var rest object
		rest.Set("command", command.Get("path"))
		for _, m := range command {
			if m.Key != "path" {
				rest.Set(m.Key, m.Value)
			}
		}
		for _, m := range entry {
			if m.Key != "command" {
				rest.Set(m.Key, m.Value)
			}
		}
		entry = rest
	}
	if settings, ok := entry.Get("settings").(object); ok && len(settings) == 0 {
		entry, _ = take(entry, "settings")
	}
	entry, timeout := take(entry, "timeout")
	converted, notes, err := common(entry)
	return setCallTimeout(converted, timeout, time.Second), notes, err
}

// take returns an object without a key, and the value that it had there.
func take(o object, key string) (rest object, value any) {
	for _, m := range o {
		if m.Key == key {
			value = m.Value
			continue
		}
		rest = append(rest, m)
	}
	return rest, value
}

// setCallTimeout sets the timeout of calls. A value that is not a positive number is left
// out.
func setCallTimeout(entry object, timeout any, unit time.Duration) object {
	d, ok := duration(timeout, unit)
	if !ok {
		return entry
	}
	timeouts := object{{Key: "call", Value: d.String()}}
	if d > defaults.CallTotalTimeout {
		timeouts.Set("call_total", d.String())
	}
	entry.Set("timeouts", timeouts)
	return entry
}

func duration(v any, unit time.Duration) (time.Duration, bool) {
	text := fmt.Sprint(v)
	var n float64
	if err := json.Unmarshal([]byte(text), &n); err != nil || n <= 0 || n > 1e9 {
		return 0, false
	}
	return time.Duration(n * float64(unit)), true
}
