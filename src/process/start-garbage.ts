// Gives memory back that only the start of a process needed: reading and compiling what it is made of leaves
// some 15 MiB behind, which V8 would keep for later, and a process that does little has no later use for.

/**
 * Collects garbage once, all of it, which takes some tens of milliseconds: to be called while nothing waits.
 * Does nothing where V8 was not started with --expose-gc, as `src/launch.js` starts it.
 */
export function collectStartGarbage(): void {
  globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}
