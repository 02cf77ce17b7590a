// A fault as an event of Sentry's protocol: its class, code and fixed text, its places in the program, and the runtime.
// Nothing else: messages are left out, since they may quote anything.
import { existsSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { arch, release as kernelRelease, type as systemName } from 'node:os'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Fault, shownFault } from './fault.ts'

const CAUSES_MAX = 3
const PROGRAM = fileURLToPath(new URL('../../..', import.meta.url))

export type FaultEvent = ReturnType<typeof eventOf>

/** Makes the event of a thrown value or of a fault. `release`: the part of the program, and its version. */
export function eventOf(thrown: unknown, release: string, isFatal = false) {
  return {
    event_id: crypto.randomUUID().replaceAll('-', ''),
    timestamp: Date.now() / 1000,
    platform: 'node',
    level: isFatal ? 'fatal' : 'error',
    release,
    contexts: {
      // What follows the numbers is the builder's own.
      os: { name: systemName(), version: /^[\d.]*\d/.exec(kernelRelease())?.[0] ?? '' },
      device: { arch: arch() },
      runtime: { name: 'node', version: process.version },
    },
    exception: {
      values: causesOf(thrown)
        .map((one) => exceptionOf(one, isFatal))
        .toReversed(),
    },
  }
}

/** The fault, then what caused it. */
function causesOf(thrown: unknown): Fault[] {
  const faults: Fault[] = []
  let one: unknown = thrown
  while (faults.length < CAUSES_MAX && (faults.length === 0 || one instanceof Error)) {
    faults.push(one instanceof Fault ? one : shownFault(one))
    one = (one as { cause?: unknown } | null | undefined)?.cause
  }
  return faults
}

function exceptionOf({ class: type, code, text, at }: Fault, isFatal: boolean) {
  const frames = at.flatMap(frameOf).toReversed()
  return {
    type,
    value: text ?? code ?? '',
    ...(frames.length > 0 && { stacktrace: { frames } }),
    mechanism: { type: isFatal ? 'onuncaughtexception' : 'generic', handled: !isFatal },
  }
}

/**
 * A place in a file of the program (`in_app`), of a package or of Node.js, by a name that says nothing of the machine;
 * of others, nothing.
 */
function frameOf(place: string) {
  const [, file = '', line] = /^(.*):(\d+):\d+$/.exec(place) ?? []
  const lineno = Number(line)
  if (file.startsWith('node:internal/')) {
    return [{ filename: 'node:internal', lineno, in_app: false }]
  }
  if (isBuiltin(file)) return [{ filename: file, lineno, in_app: false }]
  const path = file.startsWith('file:') ? pathOf(file) : file
  if (path === undefined || !existsSync(path)) return []
  const [, inPackage] = /^.*\/(node_modules\/.+)$/s.exec(path) ?? []
  if (inPackage !== undefined) return [{ filename: inPackage, lineno, in_app: false }]
  const filename = relative(PROGRAM, path)
  return filename.startsWith('..') ? [] : [{ filename, lineno, in_app: true }]
}

function pathOf(url: string): string | undefined {
  try {
    return fileURLToPath(url)
  } catch {
    return undefined
  }
}
