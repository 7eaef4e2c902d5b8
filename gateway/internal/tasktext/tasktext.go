// Package tasktext says to a client what a server has said about a task, in the words of the client's
// generation of tasks.
package tasktext

import (
	"bytes"
	"encoding/json"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// Text says to a client what a server has said about a task: in the words of the client's
// generation, with the sealed id in place of the server's. What it does not know passes as it is.
type Text struct {
	Modern     bool   // the client speaks the extension since 2026-07-28
	Sealed, ID string // by which the client and the server know the task
	// Shorten cuts a long result; nil if the text is none of a tool.
	Shorten func(json.RawMessage) json.RawMessage

	notify bool // it is a notification, whose _meta is the gateway's
}

// The members whose names differ, since 2026-07-28 and in 2025-11-25.
var taskMembers = map[string][2]string{
	"ttlMs": {"ttlMs", "ttl"}, "ttl": {"ttlMs", "ttl"},
	"pollIntervalMs": {"pollIntervalMs", "pollInterval"}, "pollInterval": {"pollIntervalMs", "pollInterval"},
}

// relatedTask is the member of _meta that names a task, in 2025-11-25.
const relatedTask = "io.modelcontextprotocol/related-task"

// Created is the answer to a tool call of which a task was made.
func (x Text) Created(text []byte) json.RawMessage {
	made, outer := text, []byte(nil)
	_ = jsonscan.EachMember(text, func(key string, value []byte) error { // task.Read has read it
		if key == "task" && value[0] == '{' {
			made, outer = value, text
		}
		return nil
	})
	rest := message.Object{}
	if outer != nil {
		_ = jsonscan.EachMember(outer, func(key string, value []byte) error {
			if key != "task" && key != "resultType" {
				rest.Add(key, x.meta(key, value))
			}
			return nil
		})
	}
	if x.Modern {
		b := message.Object{}
		b.Add("resultType", []byte(`"task"`))
		x.addState(&b, made, false)
		b.AddAll(rest)
		return b.Close()
	}
	b, state := message.Object{}, message.Object{}
	x.addState(&state, made, false)
	b.Add("task", state.Close())
	b.AddAll(rest)
	return b.Close()
}

// State is the answer to tasks/get. For a client since 2026-07-28
// result and failure are what came of a task of 2025-11-25; nil for none.
func (x Text) State(text []byte, result, failure json.RawMessage) json.RawMessage {
	b := message.Object{}
	if x.Modern {
		b.Add("resultType", []byte(`"complete"`))
	}
	x.addState(&b, text, x.Modern)
	if result != nil {
		b.Add("result", x.Result(result))
	}
	if failure != nil {
		b.Add("error", failure)
	}
	return b.Close()
}

// Notice are the params of a notification; with what came of the task, if detailed.
func (x Text) Notice(text []byte, detailed bool) json.RawMessage {
	var b message.Object
	x.notify = true
	x.addState(&b, text, detailed && x.Modern)
	return b.Close()
}

// addState adds what a server says about a task; with what came of it, if detailed.
func (x Text) addState(b *message.Object, text []byte, detailed bool) {
	hasTTL := false
	which := 1
	if x.Modern {
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
			b.Add(key, message.JSON(x.Sealed))
		case "resultType", "requestState", "task":
		case "statusMessage":
			b.Add(key, x.hide(value))
		case "result":
			if detailed {
				b.Add(key, x.Result(value))
			}
		case "error", "inputRequests":
			if detailed {
				b.Add(key, x.hide(value))
			}
		default:
			if key != "_meta" || !x.notify {
				b.Add(key, x.meta(key, value))
			}
		}
		return nil
	})
	if !hasTTL {
		b.Add([]string{"ttlMs", "ttl"}[which], []byte("null"))
	}
}

// Result is what came of a task: as it is, except for the id of the task in its _meta, which is for
// clients of 2025-11-25 only.
func (x Text) Result(raw json.RawMessage) json.RawMessage {
	raw = x.withTaskID(raw)
	if x.Shorten != nil {
		raw = x.Shorten(raw)
	}
	return raw
}

// withTaskID is a result in whose _meta the sealed id is in place of the server's.
func (x Text) withTaskID(raw json.RawMessage) json.RawMessage {
	if x.Modern && !bytes.Contains(raw, []byte(relatedTask)) {
		return raw
	}
	var b message.Object
	named := false
	err := jsonscan.EachMember(raw, func(key string, value []byte) error {
		if key == "resultType" && !x.Modern {
			return nil
		}
		if key == "_meta" && value[0] == '{' {
			named = true
			value = x.metaObject(value)
		}
		b.Add(key, value)
		return nil
	})
	if err != nil { // no object: it is passed on as it is
		return raw
	}
	if !named && !x.Modern {
		b.Add("_meta", x.metaObject([]byte("{}")))
	}
	return b.Close()
}

// meta is the value of a member of a task: _meta without the id of the server.
func (x Text) meta(key string, value []byte) []byte {
	if key != "_meta" || value[0] != '{' || !bytes.Contains(value, []byte(relatedTask)) {
		return value
	}
	return x.metaObject(value)
}

// metaObject is a _meta with the sealed id for clients of 2025-11-25, and without an id for others.
func (x Text) metaObject(meta []byte) json.RawMessage {
	var b message.Object
	_ = jsonscan.EachMember(meta, func(key string, value []byte) error {
		if key != relatedTask {
			b.Add(key, value)
		}
		return nil
	})
	if !x.Modern {
		b.Add(relatedTask, task.Params(x.Sealed))
	}
	return b.Close()
}

// minSecretTask is the length from which the id of a server is looked for in texts: a shorter one is
// no secret.
const minSecretTask = 6

// hide is a value of JSON in whose texts the id of the server is the sealed one.
func (x Text) hide(value []byte) []byte {
	if len(x.ID) < minSecretTask {
		return value
	}
	own := message.JSON(x.ID)
	return bytes.ReplaceAll(value, own[1:len(own)-1], []byte(x.Sealed))
}

// Question returns the params of a question of a server, with the id that sealed returns in place of the id
// of a task. Without one the task is not named.
func Question(params json.RawMessage, sealed func(id string) string) json.RawMessage {
	if !bytes.Contains(params, []byte(relatedTask)) {
		return bytes.Clone(params)
	}
	var b message.Object
	_ = jsonscan.EachMember(params, func(key string, value []byte) error { // the engine has read it
		if key == "_meta" && value[0] == '{' {
			x := Text{Modern: true}
			_ = jsonscan.EachMember(value, func(key string, value []byte) error {
				if key == relatedTask {
					x.Sealed = sealed(task.ReadID(value))
					x.Modern = x.Sealed == ""
				}
				return nil
			})
			value = x.metaObject(value)
		}
		b.Add(key, value)
		return nil
	})
	return b.Close()
}
