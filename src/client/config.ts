// The settings of commands that call a platform's public API: which platform, which account, with which key.
import {
  type Environment,
  type EnvironmentProblem,
  readEnvironment,
  type VariableText,
  variableTexts,
} from '../process/env.ts'
import { anyText, urlSetting, nameList } from '../process/settings.ts'
import { VARIABLE_TABLE } from '../agent/config.ts'

const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Every environment variable of `vedette apply`. */
const APPLY_VARIABLE_TABLE = {
  PLATFORM_URL: urlSetting({
    meaning: 'Address of the platform',
    shownDefault: 'http://localhost:3000',
    protocols: ['https:', 'http:'],
    example: 'https://monitoring.example.com',
  }),
  ACCOUNT_ID: anyText({
    meaning: 'Id of the account that the monitors belong to',
    problem: (id) =>
      GUID.test(id)
        ? undefined
        : { allowed: 'a UUID', fix: 'the platform prints it at its first start' },
  }),
  VEDETTE_API_KEY: anyText({
    meaning:
      'Key of the public API with the required role: Read & Run to run, Read & Write to apply',
    secret: true,
    alsoAs: ['ADMIN_API_KEY'],
    problem: (key) =>
      /^[\x21-\x7e]{1,256}$/.test(key)
        ? undefined
        : { allowed: 'a key of the public API', fix: 'copy all of it, without quotes' },
  }),
  HTTPS_PROXY: VARIABLE_TABLE.HTTPS_PROXY,
  HTTP_PROXY: VARIABLE_TABLE.HTTP_PROXY,
  NO_PROXY: nameList({ meaning: VARIABLE_TABLE.NO_PROXY.meaning, alsoAs: ['no_proxy'] }),
} as const

/** The table for help, in its order. */
export const APPLY_VARIABLES: readonly VariableText[] = variableTexts(APPLY_VARIABLE_TABLE)

/** Which platform, which account, with which key. */
export interface ApplyTarget {
  platformUrl: string
  accountId: string
  apiKey: string
  /** What to do where the platform refuses the key. */
  keyFix?: string
  proxyUrl: string | undefined
  noProxy: readonly string[]
}

/** The settings, or what is wrong with them. */
export function readApplyTarget(env: Environment): {
  target: ApplyTarget
  problems: EnvironmentProblem[]
} {
  const { values, problems } = readEnvironment(APPLY_VARIABLE_TABLE, env)
  const bad = new Set(problems.map(({ variable }) => variable))
  const missing = (variable: string, message: string) => {
    if (!bad.has(variable))
      problems.push({ variable, message: `${variable} is not set: ${message}` })
  }
  const { ACCOUNT_ID, VEDETTE_API_KEY } = values
  if (ACCOUNT_ID === undefined) missing('ACCOUNT_ID', 'set it to the id of your account')
  if (VEDETTE_API_KEY === undefined) {
    missing('VEDETTE_API_KEY', 'create a key with `vedette keys create`, or use the Admin key')
  }
  const target: ApplyTarget = {
    platformUrl: values.PLATFORM_URL ?? 'http://localhost:3000',
    accountId: ACCOUNT_ID ?? '',
    apiKey: VEDETTE_API_KEY ?? '',
    proxyUrl: values.HTTPS_PROXY ?? values.HTTP_PROXY,
    noProxy: values.NO_PROXY,
  }
  return { target, problems }
}
