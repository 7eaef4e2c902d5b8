package lock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor/internal/canonical"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// Difference is one entry in which two versions of a server differ.
type Difference struct {
	// List is "start", "instructions", "tools", "prompts" or "resourceTemplates".
	List string `json:"list"`
	// Name is that of the entry; empty for start and instructions.
	Name string `json:"name,omitempty"`
	// Change is "added", "removed" or "changed".
	Change string `json:"change"`
	// Values are the values that differ, at most [MaxValues]; none for an entry that was removed.
	Values []ValueChange `json:"values,omitempty"`
	// More counts further values.
	More int `json:"more,omitempty"`
}

// MaxValues is how many values of one entry are told.
const MaxValues = 50

// ValueChange is one value that differs. Was and Is are JSON, shortened for display; empty for none.
type ValueChange struct {
	// Path leads to the value, as in "inputSchema.properties.path.description".
	Path string `json:"path"`
	Was  string `json:"was,omitempty"`
	Is   string `json:"is,omitempty"`
}

// Compare returns in what two versions of a server differ, in order. A nil server has nothing.
func Compare(was, is *Server) (all []Difference) {
	if was == nil {
		was = &Server{}
	}
	if is == nil {
		is = &Server{}
	}
	add := func(list, name string, before, now json.RawMessage) {
		d := Difference{List: list, Name: name, Change: "changed"}
		switch {
		case bytes.Equal(before, now):
			return
		case before == nil:
			d.Change = "added"
		case now == nil:
			d.Change = "removed"
			all = append(all, d)
			return
		}
		d.addValues("", decoded(before), decoded(now))
		if len(d.Values) == 0 && d.Change == "changed" {
			d.Values = []ValueChange{{Was: "a member that stands twice, or text that is no Unicode", Is: "another one"}}
		}
		all = append(all, d)
	}
	add("start", "", was.Start, is.Start)
	text := func(s string) json.RawMessage {
		if s == "" {
			return nil
		}
		b, _ := json.Marshal(s)
		return b
	}
	add(instructions, "", text(was.Instructions), text(is.Instructions))
	before, now := was.lists(), is.lists()
	for _, list := range []string{"tools", "prompts", "resourceTemplates"} {
		names := maps.Clone(before[list])
		if names == nil {
			names = map[string]json.RawMessage{}
		}
		maps.Copy(names, now[list])
		for _, name := range slices.Sorted(maps.Keys(names)) {
			add(list, name, before[list][name], now[list][name])
		}
	}
	return all
}

// absent is the value of a member that is not there.
type absent struct{}

func decoded(raw json.RawMessage) any {
	if raw == nil {
		return absent{}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(raw)
	}
	return v
}

// addValues adds the values below a path that differ.
func (d *Difference) addValues(path string, was, is any) {
	before, objects := was.(map[string]any)
	now, both := is.(map[string]any)
	switch {
	case objects && both:
	case both && was == any(absent{}):
		before = nil
	default:
		if canonical.Equal(encoded(was), encoded(is)) {
			return
		}
		if len(d.Values) == MaxValues {
			d.More++
			return
		}
		w, i := visible(string(encoded(was))), visible(string(encoded(is)))
		w, i = fromDifference(w, i)
		d.Values = append(d.Values, ValueChange{Path: display.Shorten(visible(path), maxShown), Was: display.Shorten(w, maxShown), Is: display.Shorten(i, maxShown)})
		return
	}
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range now {
		names[name] = true
	}
	valueOf := func(m map[string]any, name string) any {
		if v, has := m[name]; has {
			return v
		}
		return absent{}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d.addValues(strings.TrimPrefix(path+"."+name, "."), valueOf(before, name), valueOf(now, name))
	}
}

// maxShown bounds one value in a difference, in bytes.
const maxShown = 1000

func encoded(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if _, missing := v.(absent); missing {
		return nil
	}
	if err := e.Encode(v); err != nil {
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}

// fromDifference cuts what is equal at the beginning of two long texts, so that what differs is shown.
func fromDifference(was, is string) (string, string) {
	const before = 100 // bytes that are shown
	equal := 0
	for equal < min(len(was), len(is)) && was[equal] == is[equal] {
		equal++
	}
	if equal < maxShown/2 {
		return was, is
	}
	from := equal - before
	for !utf8.RuneStart(was[from]) {
		from--
	}
	return "… " + was[from:], "… " + is[from:]
}

// visible writes out the characters of a text that a reader would not see: they are a way to hide words from people.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u{%x}", r)
		}
	}
	return b.String()
}

// String is the difference as lines of text.
func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", map[string]string{"added": "+", "removed": "-", "changed": "~"}[d.Change], d.List, display.Shorten(visible(d.Name), 200))
	for _, v := range d.Values {
		fmt.Fprintf(&b, "\n    %s", v.Path)
		if v.Was != "" {
			fmt.Fprintf(&b, "\n      - %s", v.Was)
		}
		if v.Is != "" {
			fmt.Fprintf(&b, "\n      + %s", v.Is)
		}
	}
	if d.More > 0 {
		fmt.Fprintf(&b, "\n    %d more", d.More)
	}
	return b.String()
}
