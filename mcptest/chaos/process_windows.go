package chaos

import "os"

// signal is a signal to a process; nil where the system has none of that kind.
type signal = os.Signal

var sigKill, sigStop, sigContinue signal = os.Kill, nil, nil
