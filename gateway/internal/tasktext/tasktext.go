// Package tasktext rewrites what a server says about a task for the client: with the names of the
// members in the client's version, and with the sealed id in place of the server's. It keeps no state.
package tasktext

import (
	"bytes"
	"encoding/json"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// Text rewrites what a server says about one task for one client. Unknown members are passed on
// unchanged.
type Text struct {
	Modern     bool   // the client speaks the extension of 2026-07-28, and not 2025-11-25
	Sealed, ID string // the client knows the task by Sealed, and the server by ID
	// Shorten shortens the result of a tool; nil: results are not shortened.
	Shorten func(json.RawMessage) json.RawMessage

	notify bool // the text is a notification; the gateway sets its _meta
}

// taskMembers has the names of members that differ: since 2026-07-28, and in 2025-11-25.
var taskMembers = map[string][2]string{
	"ttlMs": {"ttlMs", "ttl"}, "ttl": {"ttlMs", "ttl"},
	"pollIntervalMs": {"pollIntervalMs", "pollInterval"}, "pollInterval": {"pollIntervalMs", "pollInterval"},
}

// relatedTask is the member of _meta that names a task in 2025-11-25.
const relatedTask = "io.modelcontextprotocol/related-task"

// Created returns the answer to a tool call that has become a task.
func (t Text) Created(text []byte) json.RawMessage {
	made, rest := text, jsonscan.Object{}
	if inner := jsonscan.Member(text, "task"); len(inner) > 0 && inner[0] == '{' { // task.Read has read it
		made = inner
		_ = jsonscan.EachMember(text, func(key string, value []byte) error {
			if key != "task" && key != "resultType" {
				rest.Add(key, t.meta(key, value))
			}
			return nil
		})
	}
	var b jsonscan.Object
	if t.Modern {
		b.Add("resultType", []byte(`"task"`))
		t.addState(&b, made, false)
	} else {
		var state jsonscan.Object
		t.addState(&state, made, false)
		b.Add("task", state.Close())
	}
	b.AddAll(rest)
	return b.Close()
}

// State returns the answer to tasks/get. result and failure are the outcome of a task of 2025-11-25, for
// a client of 2026-07-28; otherwise nil.
func (t Text) State(text []byte, result, failure json.RawMessage) json.RawMessage {
	b := jsonscan.Object{}
	if t.Modern {
		b.Add("resultType", []byte(`"complete"`))
	}
	t.addState(&b, text, t.Modern)
	if result != nil {
		b.Add("result", t.Result(result))
	}
	if failure != nil {
		b.Add("error", failure)
	}
	return b.Close()
}

// Notice returns the params of a notification. If detailed, they include the outcome of the task.
func (t Text) Notice(text []byte, detailed bool) json.RawMessage {
	var b jsonscan.Object
	t.notify = true
	t.addState(&b, text, detailed && t.Modern)
	return b.Close()
}

// addState adds the state of a task to an object. If detailed, it includes the outcome of the task.
func (t Text) addState(b *jsonscan.Object, text []byte, detailed bool) {
	hasTTL := false
	which := 1
	if t.Modern {
		which = 0
	}
	_ = jsonscan.EachMember(text, func(key string, value []byte) error { // task.Read has read it
		if names, ok := taskMembers[key]; ok {
			hasTTL = hasTTL || names[0] == "ttlMs"
			b.Add(names[which], value)
			return nil
		}
		switch key {
		case "taskId":
			b.Add(key, jsonscan.Quote(t.Sealed))
		case "resultType", "requestState", "task":
		case "statusMessage":
			b.Add(key, t.hide(value))
		case "result":
			if detailed {
				b.Add(key, t.Result(value))
			}
		case "error", "inputRequests":
			if detailed {
				b.Add(key, t.hide(value))
			}
		default:
			if key != "_meta" || !t.notify {
				b.Add(key, t.meta(key, value))
			}
		}
		return nil
	})
	if !hasTTL {
		b.Add([]string{"ttlMs", "ttl"}[which], []byte("null"))
	}
}

// Result returns the result of a task. Only its length and the id of the task in its _meta change; only
// clients of 2025-11-25 get that id.
func (t Text) Result(raw json.RawMessage) json.RawMessage {
	raw = t.withTaskID(raw)
	if t.Shorten != nil {
		raw = t.Shorten(raw)
	}
	return raw
}

// withTaskID returns a result whose _meta has the sealed id in place of the server's.
func (t Text) withTaskID(raw json.RawMessage) json.RawMessage {
	if t.Modern && !bytes.Contains(raw, []byte(relatedTask)) {
		return raw
	}
	var b jsonscan.Object
	named := false
	err := jsonscan.EachMember(raw, func(key string, value []byte) error {
		if key == "resultType" && !t.Modern {
			return nil
		}
		if key == "_meta" && value[0] == '{' {
			named = true
			value = t.metaObject(value)
		}
		b.Add(key, value)
		return nil
	})
	if err != nil { // no object: it is passed on as it is
		return raw
	}
	if !named && !t.Modern {
		b.Add("_meta", t.metaObject([]byte("{}")))
	}
	return b.Close()
}

// meta returns the value of a member. If the member is _meta, it is without the server's id.
func (t Text) meta(key string, value []byte) []byte {
	if key != "_meta" || value[0] != '{' || !bytes.Contains(value, []byte(relatedTask)) {
		return value
	}
	return t.metaObject(value)
}

// metaObject returns a _meta with the sealed id for clients of 2025-11-25, and without an id for others.
func (t Text) metaObject(meta []byte) json.RawMessage {
	var b jsonscan.Object
	_ = jsonscan.EachMember(meta, func(key string, value []byte) error {
		if key != relatedTask {
			b.Add(key, value)
		}
		return nil
	})
	if !t.Modern {
		b.Add(relatedTask, task.Params(t.Sealed))
	}
	return b.Close()
}

// minSecretTask is the length from which the server's id is replaced in texts: a shorter id is no
// secret.
const minSecretTask = 6

// hide replaces the server's id in all strings of a JSON value by the sealed one.
func (t Text) hide(value []byte) []byte {
	if len(t.ID) < minSecretTask {
		return value
	}
	own := jsonscan.Quote(t.ID)
	return bytes.ReplaceAll(value, own[1:len(own)-1], []byte(t.Sealed))
}

// Question returns the params of a question of a server. The id of a task in them is replaced by the one
// that sealed returns; if that is empty, the task is left out.
func Question(params json.RawMessage, sealed func(id string) string) json.RawMessage {
	return bytes.Clone(jsonscan.Edit(params, func(key string, value []byte) []byte { // the engine has read it
		if key != "_meta" || value[0] != '{' {
			return value
		}
		related := jsonscan.Member(value, relatedTask)
		if related == nil {
			return value
		}
		x := Text{Sealed: sealed(task.ReadID(related))}
		x.Modern = x.Sealed == ""
		return x.metaObject(value)
	}))
}
