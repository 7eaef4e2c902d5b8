package facade

// TargetOf is targetOf, for tests.
var TargetOf = targetOf
