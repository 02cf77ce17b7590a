// Lets a command of a test become another user in a checkout without access for that user, such as below root's
// home. As a program it makes the checkout accessible to its children, and executes its arguments.
import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inheritOnExec, libcFunction } from '../../src/network/native/syscalls.ts'
import { openWay } from '../../src/sandbox/supervisor/mounts.ts'

const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')
const NEEDED = [CHECKOUT, process.execPath]
const NOBODY = 65534

/** Prefix of a command that becomes another user, while it is still root. Empty where all users have access. */
export const IN_REACH: readonly string[] =
  process.getuid?.() === 0 && NEEDED.some((path) => !everybodyPassesTo(path))
    ? [process.execPath, '--disable-warning=ExperimentalWarning', fileURLToPath(import.meta.url)]
    : []

function everybodyPassesTo(path: string): boolean {
  const above = dirname(path)
  return (statSync(above).mode & 0o001) !== 0 && (above === path || everybodyPassesTo(above))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  openWay(NEEDED, NOBODY)
  // Node.js opens its descriptors with close-on-exec.
  for (const fd of [0, 1, 2]) inheritOnExec(fd)
  const environment = Object.entries(process.env).map(([name, value]) => `${name}=${value}`)
  const execute = libcFunction('int execve(const char *, const char **, const char **)')
  execute('/usr/bin/env', ['env', ...process.argv.slice(2), null], [...environment, null])
  throw new Error(`/usr/bin/env ${process.argv.slice(2).join(' ')} could not be started`)
}
