// The kinds of settings that an environment variable can hold, each with its own error message.
import { accessSync, constants, statSync } from 'node:fs'
import type { Parsed, Variable } from './env.ts'
import type { LogLevel } from './log.ts'
import { dsnProblem } from './faults/sentry-dsn.ts'

/** Options of every kind in addition to its own bounds. */
interface About {
  meaning: string
  /** The default in documentation, unless `otherwise` is clear enough. */
  shownDefault?: string
  unit?: string
  secret?: boolean
  alsoAs?: readonly string[]
  fromFile?: boolean
}

function variable<T>(about: About, otherwise: T, parse: (text: string) => Parsed<T>): Variable<T> {
  const shownDefault = about.shownDefault ?? (otherwise === undefined ? '–' : String(otherwise))
  return { ...about, shownDefault, otherwise, parse }
}

export function wholeNumber<Otherwise extends number | undefined>(
  about: About & { otherwise: Otherwise; min: number; max: number },
): Variable<number | Otherwise> {
  const { min, max, otherwise, ...rest } = about
  return variable<number | Otherwise>(rest, otherwise, (text) => {
    const value = /^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return { value }
    const allowed = `a whole number from ${min} to ${max}`
    return {
      allowed,
      fix: otherwise === undefined ? 'it has no default' : `the default is ${otherwise}`,
    }
  })
}

/** One of several names, in any case. The table gives the value of each name. */
export function oneOf<T>(
  about: About & { otherwise: T; names: Readonly<Record<string, T>> },
): Variable<T> {
  const { names, otherwise, ...rest } = about
  const table = new Map(Object.entries(names).map(([name, value]) => [name.toLowerCase(), value]))
  return variable(rest, otherwise, (text) => {
    const key = text.toLowerCase()
    if (table.has(key)) return { value: table.get(key) as T }
    return { allowed: `one of ${Object.keys(names).join(', ')}`, fix: 'upper or lower case' }
  })
}

/** How much is logged; `LOG` is an alias of info. */
export function leastLevel(): Variable<LogLevel> {
  return oneOf<LogLevel>({
    meaning: 'Least important lines that are logged: DEBUG, INFO (or LOG), WARN, ERROR',
    otherwise: 'info',
    names: { DEBUG: 'debug', LOG: 'info', INFO: 'info', WARN: 'warn', ERROR: 'error' },
  })
}

/** A switch: on or off in the usual spellings. */
export function onOff(about: About & { otherwise: boolean }): Variable<boolean> {
  const { otherwise, ...rest } = about
  return oneOf({
    shownDefault: otherwise ? 'on' : 'off',
    ...rest,
    otherwise,
    names: {
      on: true,
      off: false,
      true: true,
      false: false,
      yes: true,
      no: false,
      1: true,
      0: false,
    },
  })
}

/** Whether faults of the program are reported, and where to instead of the platform. */
export const FAULT_REPORT_VARIABLES = {
  EXTERNAL_OBSERVABILITY: onOff({
    meaning: 'Whether faults of the program itself are reported: to the platform, or to SENTRY_DSN',
    otherwise: true,
  }),
  SENTRY_DSN: anyText({
    meaning: 'Receiver of these reports that speaks Sentry’s protocol, in place of the platform',
    secret: true,
    problem: dsnProblem,
  }),
} as const

/** The proxy for `meaning`, read from the environment as most programs do. */
export function proxyVariables(meaning: string) {
  const proxy = {
    secret: true,
    protocols: ['http:', 'https:'],
    example: 'http://user:password@proxy.example.com:3128',
  }
  return {
    HTTPS_PROXY: urlSetting({ ...proxy, meaning, alsoAs: ['https_proxy'] }),
    HTTP_PROXY: urlSetting({
      ...proxy,
      meaning: 'The same where HTTPS_PROXY is not set',
      alsoAs: ['http_proxy'],
    }),
    NO_PROXY: nameList({
      meaning: 'Hosts that are reached without the proxy',
      alsoAs: ['no_proxy'],
    }),
  } as const
}

const BYTE_UNITS: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  kb: 1000,
  mb: 1000 ** 2,
  gb: 1000 ** 3,
  tb: 1000 ** 4,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  tib: 1024 ** 4,
}

/** A number of bytes, plain or as `256MiB`, `1.5 GB`. */
export function byteCount(
  about: About & { otherwise: number; min: number; max: number },
): Variable<number> {
  const { otherwise, min, max, ...rest } = about
  return variable({ ...rest, unit: 'bytes' }, otherwise, (text) => {
    const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text)
    const factor = BYTE_UNITS[match?.[2]?.toLowerCase() ?? '']
    const value = match === null || factor === undefined ? Number.NaN : Number(match[1]) * factor
    if (Number.isInteger(value) && value >= min && value <= max) return { value }
    return {
      allowed: `a number of bytes from ${min} to ${max}`,
      fix: 'write it plainly or with a unit, like 256MiB (kB MB GB TB, KiB MiB GiB TiB)',
    }
  })
}

/** Any text that `problem` finds nothing wrong with. */
export function anyText(
  about: About & { problem?: (text: string) => { allowed: string; fix: string } | undefined },
): Variable<string | undefined> {
  const { problem, ...rest } = about
  return variable<string | undefined>(rest, undefined, (value) => problem?.(value) ?? { value })
}

/** The path of a file that exists and can be read. */
export function readableFile(about: About): Variable<string | undefined> {
  return anyText({ ...about, problem: fileProblem })
}

function fileProblem(path: string): { allowed: string; fix: string } | undefined {
  const fix = 'check the path, what is mounted, and who may read it'
  try {
    if (!statSync(path).isFile()) return { allowed: 'a file', fix: 'name a regular file' }
    accessSync(path, constants.R_OK)
    return undefined
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    return { allowed: missing ? 'a file that exists' : 'a file that can be read', fix }
  }
}

/** A URL of one of some protocols, like `https:`; one that is shown to clients has no credentials. */
export function urlSetting(
  about: About & { protocols: readonly string[]; example: string; isShownToClients?: true },
): Variable<string | undefined> {
  const { protocols, example, isShownToClients, ...rest } = about
  return anyText({
    ...rest,
    problem: (value) => {
      const url = URL.parse(value)
      if (url !== null && protocols.includes(url.protocol)) {
        if (isShownToClients !== true || url.username + url.password === '') return undefined
        return { allowed: 'a URL without user and password', fix: `write it like ${example}` }
      }
      const starts = protocols.map((one) => `${one}//`)
      const hasStart = starts.some((one) => value.startsWith(one))
      const allowed = hasStart
        ? 'a URL with a valid host and port'
        : `a URL that starts with ${starts.join(' or ')}`
      return { allowed, fix: `write it like ${example}` }
    },
  })
}

/** A list of names between commas or spaces; `problem` returns the problem of one name. */
export function nameList(
  about: About & { problem?: (name: string) => { allowed: string; fix: string } | undefined },
): Variable<string[]> {
  const { problem, ...rest } = about
  return variable<string[]>({ shownDefault: '–', ...rest }, [], (value) => {
    const names = value.split(/[\s,]+/).filter((name) => name !== '')
    for (const name of names) {
      const wrong = problem?.(name)
      if (wrong === undefined) continue
      const isNamed = rest.secret === true || wrong.fix.includes(name)
      const named = isNamed ? wrong.fix : `${name} is not one; ${wrong.fix}`
      return { allowed: wrong.allowed, fix: named }
    }
    return { value: names }
  })
}
