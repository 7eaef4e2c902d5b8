package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// arm is one way to call a server. All arms of a round speak to servers of
// their own of the same kind, and every answer is checked.
type arm interface {
	name() string
	// echo returns the text that the server gave back.
	echo(ctx context.Context, text string) (string, error)
	// blob returns how many bytes of text the server sent, and the last of them.
	blob(ctx context.Context, size int) (string, error)
	close()
}

// target is the server that an arm connects to.
type target struct {
	kind    string // for the report
	command string
	args    []string
	env     []string
	url     string
	// echoTool is what the server calls its echo, and the argument's name.
	echoTool, echoArg string
	// slowTool never answers, or not for a long while.
	slowTool string
	slowArgs map[string]any
	// reply is what the answer to an echo looks like; %s is the text.
	reply string
}

func (t target) expect(text string) string {
	if t.reply == "" {
		return text
	}
	return fmt.Sprintf(t.reply, text)
}

// check compares an answer with what it has to be.
func check(a arm, t target, text, got string) error {
	if want := t.expect(text); got != want {
		return fmt.Errorf("%s answered %.60q, want %.60q", a.name(), got, want)
	}
	return nil
}

func checkBlob(a arm, size int, got string) error {
	if len(got) != size || !strings.HasSuffix(got, suffix(size)) {
		return fmt.Errorf("%s returned %d bytes, want %d", a.name(), len(got), size)
	}
	return nil
}

var suffixes sync.Map

// suffix is how a blob of that size ends.
func suffix(size int) string {
	if s, ok := suffixes.Load(size); ok {
		return s.(string)
	}
	all := blob(size)
	s := strings.Clone(all[max(0, len(all)-32):])
	suffixes.Store(size, s)
	return s
}
