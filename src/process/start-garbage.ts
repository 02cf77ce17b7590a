// Releases memory that only the start of a process needed: reading and compiling its modules leaves some 15 MiB of
// garbage, which V8 would collect late in a process that does little.

/**
 * Runs one full garbage collection of some tens of milliseconds: to be called while nothing waits.
 * Does nothing where V8 was not started with --expose-gc, as `src/launch.js` starts it.
 */
export function collectStartGarbage(): void {
  globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}
