package decisive

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// patterns are compiled when the first failure is explained. All begin with "^": a server ends
// while callers wait, and a search within long lines takes long.
var patterns = sync.OnceValue(func() *compiled {
	begins := func(alternatives ...string) *regexp.Regexp {
		return regexp.MustCompile(`^(?:` + strings.Join(alternatives, `|`) + `)`)
	}
	return &compiled{
		stamp: regexp.MustCompile(`^[\[(]?(?:\d{4}[-/]\d\d[-/]\d\d[T ,]?\s*)?(?:\d\d?:\d\d:\d\d(?:[.,]\d+)?)?\s*(?:Z|UTC|[AP]M|[+-]\d\d:?\d\d)?[\])]?\s*(?:[-|:]\s+)?`),
		level: regexp.MustCompile(`^[\[(<]?(?i:(trace|debug|info|notice|warn|warning|error|err|fatal|critical|crit|severe|panic))[\])>]?(?:\s*[-|:]\s*|\s{2,}|\s+(?:\[|\S+: )|[\])>]\s*)`),
		noise: begins(
			// Node.js
			`at .*(?::\d+\)?|\)|>)(?: \{)?$`, `node:internal`, `Node\.js v\d`, `throw .*;$`, `(?:code|errno|syscall|path|requireStack|address|port|hostname|digest|cause|errors|spawnargs|stdout|stderr|status|signal|generatedMessage|actual|expected|operator)\s*:\s(?:['"\[{\d-]|undefined)`,
			`\(Use .node --trace`, `\(node:\d+\)`, `Support for loading ES Module`, `Debugger attached`, `Waiting for the debugger`, `For help, see: https://nodejs`,
			`\S*:\d+(?::\d+)?$`, `\[?eval\]?:\d+$`, `triggerUncaughtException`, `<--- `, `\[\d+:0x`, `-+ Native stack trace`, `\d+: 0x[0-9a-f]`, `internalBinding`,
			// npm
			`npm (?:warn|notice|WARN|info)\b`, `npm (?:error|ERR!)(?: (?:code|errno|syscall|path|cwd|dest|file|signal|pid|host|enoent This is related|enoent\s*$)\b.*| 404 Note\b.*| 404 tarball\b.*| \d*\s*| network\s*| A complete log\b.*|\s+/\S+\.log| command (?:failed|sh -c).*| notsup Not compatible.*| Find more.*| This is probably not.*)$`,
			`npm (?:error|ERR!) (?:notarget In most cases|notarget a package version|network This is a problem|network In most cases|network '?proxy|network settings|network If you)`,
			// Python
			`Traceback \(most recent`, `Exception Group Traceback`, `During handling of the above`, `The above exception was the direct`, `For further information visit`, `warnings\.warn\(`, `\[Previous line repeated`,
			// Go
			`goroutine \d+`, `created by `, `exit status \d+$`, `\[signal SIG`, `runtime: `, `main\.main\(`, `\w+[\w./*()]*\(\.\.\.\)$`, `\S+/\S+\(0x`, `\S+\.go:\d+ \+0x`,
			// Java, Rust, shells, docker
			`\.\.\. \d+ (?:more|common frames)`, `note: (?:run with|Some details)`, `stack backtrace:`, `\d+:\s+(?:0x|std::|core::|rust_begin|main::)`,
			`(?:Run|Try|See|Use) ['"\x60].*(?:help|--help|-h)\b`, `(?i:for more) (?:information|details|help)`, `(?:docker: )?See .*--help`, `Learn more `, `[0-9a-f]{12}: `, `(?:Digest|Status): `,
			// package process
			`… \d+ lines? (?:is|are) left out …$`,
		),
		progress: begins(
			`\W*\d{1,3}\s?%`, `(?i:downloading|downloaded|installing|installed|resolving|resolved|prepared|preparing|building|built|pulling|fetching|extracting|compiling|updating|updated|using|loading|loaded|connecting|connected|starting|started|listening|initializing|initialized|reading|checking|running|audited|added \d+ packages?)\b`,
			`(?i:info|debug|trace)\b\W`, `(?i:warning|warn)\b[:\]]`, `\[(?i:info|debug|trace|warn|warning)\]`, `Unable to find image '.*' locally$`,
		),
		failure: begins(
			`(?:Uncaught |Unhandled |\[?cause\]?: |\[)?(?:[A-Za-z_$][\w$]*[.:]+)*[A-Z][\w$]*(?:Error|Exception|Exit|Interrupt|Failure|Fault)(?: \[[\w ]+\])?(?: \([^)]*\))?(?:: |$)`,
			`\[?Error(?: \[\w+\])?: `, `(?i:fatal|fatal error|error|panic|critical|err|❌ error|failed|failure)(?:\[\w+\])?\s*(?::|!|-)\s`, `(?i:fatal) `, `Exception in thread `, `Caused by: `, `\S{1,40}: (?i:fatal|fatal error|error): `,
			`npm (?:error|ERR!) `, `docker: `, `(?:╰─▶|×) `, `terminate called after`, `thread '.*' \(?.*panicked at`, `Segmentation fault`, `Assertion failed`, `\S*: (?:line )?\d+: .*: (?:not found|No such file or directory|Permission denied)$`, `(?:ba|z|da)?sh: .*: (?:command )?not found`, `env: .*No such file or directory`, `Unhandled exception`, `ERROR:`,
		),
		usage: regexp.MustCompile(`^(?i:usage)(?:\b.*?:|:| of\b)|^Options:$|^Commands:$|^(?:positional|optional) arguments:$`),
		frame: regexp.MustCompile(`^File "[^"]*", line \d+`),
		rust:  regexp.MustCompile(`^thread '.*'.* panicked at .*:\d+:\d+:?$`),
	}
})

type compiled struct{ stamp, level, noise, progress, failure, usage, frame, rust *regexp.Regexp }

// The texts below mark a line wherever they are in it. Those of complaints and of progress are
// in lower case.
var (
	noiseTexts     = []string{"DeprecationWarning", "ExperimentalWarning", "NO_COLOR", "FORCE_COLOR", "pkg_resources is deprecated", "Warning: urllib3"}
	progressTexts  = []string{"running on", "running at", "listening on", "listening at", "started on", "started at", "██", "▌▌", "━━", "[==", "[=>"}
	complaintTexts = []string{"error", "fatal", "fail", "exception", "abort", "cannot", "can't", "could not", "couldn't", "unable", "missing", "required", "requires", "must", "invalid", "illegal",
		"not found", "not set", "not defined", "not provided", "not installed", "not supported", "not allowed", "not exist", "n't exist", "not permitted", "not configured", "not specified", "not available",
		"undefined", "unknown", "unexpected", "unrecogni", "unsupported", "denied", "refused", "forbidden", "unauthori", "expired", "rejected", "timed out", "timeout", "no such", "in use", "out of memory",
		"provide", "please set", "expected", "no api key", "no key", "no token", "no credential", "no argument", "not allocate"}
)

// containsAny reports whether a text contains one of others.
func containsAny(text string, others []string) bool {
	for _, other := range others {
		if strings.Contains(text, other) {
			return true
		}
	}
	return false
}

// levels are the weights of log levels.
var levels = map[string]Weight{"trace": Progress, "debug": Progress, "info": Progress, "notice": Progress, "warn": Progress, "warning": Progress,
	"error": Failure, "err": Failure, "fatal": Failure, "critical": Failure, "crit": Failure, "severe": Failure, "panic": Failure}

func isFailure(text string) bool { return patterns().failure.MatchString(text) }
func isProgress(text, lower string) bool {
	return containsAny(lower, progressTexts) || patterns().progress.MatchString(text)
}
func complaint(lower string) bool  { return containsAny(lower, complaintTexts) }
func isUsage(text string) bool     { return patterns().usage.MatchString(text) }
func pythonFrame(text string) bool { return patterns().frame.MatchString(text) }
func rustPanic(text string) bool   { return patterns().rust.MatchString(text) }
func validationErrors(text string) bool {
	return strings.Contains(text, " validation error") && strings.Contains(text, " for ")
}
func endsSentence(text string) bool { return strings.HasSuffix(text, ".") }

// isNoise reports whether a line says nothing about a failure: a frame of a stack, an advice
// about colours, a bracket.
func isNoise(text string) bool {
	return !strings.ContainsFunc(text, unicode.IsLetter) || containsAny(text, noiseTexts) || patterns().noise.MatchString(text)
}

// withoutPrefix removes the time of a log line, and its level, which it returns as a weight.
// Levels that are a part of the message ("Error: …") stay.
func withoutPrefix(text string) (rest string, level Weight) {
	rest = text
	if stamp := patterns().stamp.FindString(text); strings.ContainsFunc(stamp, unicode.IsDigit) {
		rest = strings.TrimSpace(text[len(stamp):])
		if rest == "" {
			return text, None
		}
	}
	m := patterns().level.FindStringSubmatch(rest)
	if m == nil {
		return rest, None
	}
	return rest, levels[strings.ToLower(m[1])]
}
