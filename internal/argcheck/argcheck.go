// Package argcheck compares the arguments of a tool call with the tool's input schema.
//
// The schema comes from a server, which may be hostile, and the arguments from a model. So
// nothing is compiled or kept but regular expressions, in a cache of bounded size: a check
// reads the two texts, with an index of them that is given back, and counts what it does in
// steps. What exceeds a bound is not compared, and the arguments are accepted. Nothing is
// ever read from a file or a network.
//
// Nothing is refused that the schema allows. One walk compares the keywords that tell a
// caller what to write: type, enum, const, required, properties, additionalProperties, items,
// prefixItems, the bounds of numbers, lengths and lists, pattern, allOf, anyOf, and
// oneOf, which it reads as anyOf. A rule counts as broken only if that is certain. What the
// walk does not know passes, because the server checks, too: other keywords, a regular
// expression that Go reads in another way, numbers that float64 does not hold, a keyword with
// a value that the standard does not want.
package argcheck

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/pattern"
)

const (
	// maxSchemaBytes bounds a schema that is used.
	maxSchemaBytes = 1 << 20
	// maxValues bounds the values and names of a schema, and those of arguments.
	maxValues = 1 << 16
	// maxSteps bounds one check. A step takes a few nanoseconds: it compares two names, or
	// passes a keyword.
	maxSteps = 4 << 20
	// stepsPerLook is how many steps are between two looks at the context.
	stepsPerLook = 1 << 14
	// maxDepth bounds how deep a comparison is nested, references included.
	maxDepth = 64
	// maxPooledNodes is the largest index that is kept for later checks, and
	// maxPooledProblems the longest list of problems.
	maxPooledNodes    = 4096
	maxPooledProblems = 64
)

// Checker compares arguments with schemas. The zero value is ready to use. Safe for
// concurrent use.
type Checker struct {
	patterns pattern.Cache
}

// Options change a check.
type Options struct {
	// Most is how many violations are wanted; 0 means 1.
	Most int
	// Strict: a name that the schema does not declare is a violation, unless the schema
	// says that there may be others. Most servers ignore such a name.
	Strict bool
	// Property: the value is that of one property, not the arguments as a whole.
	Property string
}

// Result is what a check has found.
type Result struct {
	// Violations are in the order of the schema's rules; none if the arguments match, or
	// if it is not known.
	Violations []Violation
	// Unchecked says why not everything was compared; empty if everything was, or if the
	// context ended the check.
	Unchecked string
}

// Check compares arguments with a schema. args is valid JSON. Both may be changed later.
func (c *Checker) Check(ctx context.Context, schema, args []byte, o Options) Result {
	k := checks.Get().(*check)
	defer k.release()
	k.ctx, k.patterns, k.most, k.strict = ctx, &c.patterns, max(o.Most, 1), o.Strict
	k.steps, k.nextLook = maxSteps, maxSteps-stepsPerLook
	k.run(schema, args, o)
	return Result{Violations: k.violations(), Unchecked: k.unchecked}
}

// check is one comparison. It is used again.
type check struct {
	ctx          context.Context
	patterns     *pattern.Cache
	schema, args jsonscan.Tree
	most         int
	strict       bool

	steps, nextLook int // steps that are left, and how many at the next look at ctx
	stopped         bool
	unchecked       string
	// problems are the rules that are broken. While quiet is not 0, they are those of an
	// alternative, which may be taken back, and one is enough.
	problems []problem
	quiet    int
	// partial is not 0 while the schema is one of several for a value, so that the names
	// that it declares are not all.
	partial int
}

var checks = sync.Pool{New: func() any { return new(check) }}

// release gives back the memory of a check, unless it is large.
func (c *check) release() {
	schema, args := c.schema, c.args
	schema.Reset()
	args.Reset()
	if schema.Cap() > maxPooledNodes || args.Cap() > maxPooledNodes || cap(c.problems) > maxPooledProblems {
		return
	}
	*c = check{schema: schema, args: args, problems: c.problems[:0]}
	checks.Put(c)
}

func (c *check) run(schema, args []byte, o Options) {
	if len(schema) > maxSchemaBytes {
		c.stop(fmt.Sprintf("its input schema is longer than %d bytes", maxSchemaBytes))
		return
	}
	if err := c.schema.Parse(c.ctx, schema, maxValues); err != nil {
		c.stop(parseReason("its input schema", err))
		return
	}
	if err := c.args.Parse(c.ctx, args, maxValues); err != nil {
		c.stop(parseReason("the value of the arguments", err))
		return
	}
	if c.schema.First(0) != '{' {
		c.stop("its input schema is not an object")
		return
	}
	at := 0
	if o.Property != "" {
		properties := c.member(&c.schema, 0, "properties")
		if properties == 0 || c.schema.First(properties) != '{' {
			return
		}
		if at = c.member(&c.schema, properties, o.Property); at == 0 {
			return
		}
	}
	c.value(at, 0, 0)
}

// parseReason says why there is no index of a text.
func parseReason(what string, err error) string {
	switch {
	case errors.Is(err, jsonscan.ErrTooManyValues):
		return fmt.Sprintf("%s holds more than %d values", what, maxValues)
	case errors.Is(err, jsonscan.ErrTooDeep):
		return what + " is nested too deep"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ""
	}
	return what + " is not valid JSON"
}

// stop ends the check: the arguments are accepted. reason is empty if ctx has ended.
func (c *check) stop(reason string) {
	if !c.stopped {
		c.stopped, c.unchecked = true, reason
	}
}

// spend counts steps before they are taken. It reports false if the check has ended.
func (c *check) spend(steps int) bool {
	if c.steps -= steps; c.steps < 0 {
		c.stop("the comparison takes too long")
	} else if c.steps < c.nextLook {
		c.nextLook = c.steps - stepsPerLook
		if c.ctx.Err() != nil {
			c.stop("")
		}
	}
	return !c.stopped
}

// bytesPerStep is how much text takes one step.
const bytesPerStep = 16

// text returns a string of the schema or of the arguments, and counts its length.
func (c *check) text(t *jsonscan.Tree, i int) string {
	n := len(t.Text(i))
	if t.Escaped(i) {
		n *= bytesPerStep / 2 // it is copied
	}
	if !c.spend(1 + n/bytesPerStep) {
		return ""
	}
	return t.String(i)
}

// float returns the value of a number. ok is false if it is not known: the number is out of
// the range of float64, or has thousands of digits, and takes as many steps to read.
func (c *check) float(t *jsonscan.Tree, i int) (n float64, ok bool) {
	text := t.Text(i)
	if len(text) > maxNumberBytes || digits(text) > maxDigits || !c.spend(2*len(text)) {
		return 0, false
	}
	return t.Number(i)
}

const (
	// maxNumberBytes bounds a number that is compared.
	maxNumberBytes = 64
	// maxDigits bounds its digits before the exponent. With up to 19, strconv.ParseFloat
	// multiplies once; with more, numbers between two of float64 take it up to 70 µs.
	maxDigits = 19
)

// digits counts the digits of a number before its exponent.
func digits(number []byte) (n int) {
	for _, b := range number {
		switch {
		case b >= '0' && b <= '9':
			n++
		case b == 'e', b == 'E':
			return n
		}
	}
	return n
}

// member returns the value of a member of an object; 0 without one. Of several of one
// name, the last one counts.
func (c *check) member(t *jsonscan.Tree, object int, name string) (found int) {
	for i := object + 1; i < t.Next(object) && c.spend(1); i = t.Next(i + 1) {
		if t.Escaped(i) {
			if c.text(t, i) == name {
				found = i + 1
			}
		} else if text := t.Text(i); len(text) == len(name)+2 && c.spend(len(text)/bytesPerStep) && string(text[1:len(text)-1]) == name {
			found = i + 1
		}
	}
	return found
}
