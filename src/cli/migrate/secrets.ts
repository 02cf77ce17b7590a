// Secret values for monitors of a platform that are run here: the platform shows none to anybody, so that
// they come from the environment, under their own names.
import { SECRET_MASK } from '../../contract/api/resource.ts'
import type { Monitor, Variable } from '../../contract/monitor.ts'
import type { Environment } from '../../process/env.ts'
import { secretValue } from '../../agent/monitors-file/variables.ts'

/** Whether the platform keeps a value for itself. */
export const isMasked = ({ secret, value }: Variable) => secret && value === SECRET_MASK

/** Values of all secrets among the variables, as far as the environment has them: `NAME` or `NAME_FILE`. */
export async function readSecrets(
  variables: readonly Variable[],
  env: Environment,
): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  for (const name of new Set(variables.filter(isMasked).map(({ key }) => key))) {
    const value = await secretValue(name, env, [])
    if ('text' in value) found.set(name, value.text)
  }
  return found
}

/** The variable as a monitor is to know it. */
export function withValue(one: Variable, secrets: ReadonlyMap<string, string>): Variable {
  const { key, locked, secret, value } = one
  return { key, locked, secret, value: isMasked(one) ? (secrets.get(key) ?? '') : value }
}

/**
 * The monitor with the values of its secrets, and what it cannot be run for want of: any of its own, and of
 * the account's those that its definition names somewhere.
 */
export function fillSecrets(
  monitor: Monitor,
  { account, secrets }: { account: readonly Variable[]; secrets: ReadonlyMap<string, string> },
): { monitor: Monitor; lacks?: string } {
  const own = monitor.environmentVariables
  const known = new Set(own.map(({ key }) => key))
  const words = new Set(JSON.stringify(monitor).match(/[A-Za-z_]\w*/g))
  const used = account.filter(({ key }) => !known.has(key) && words.has(key))
  const lacking = [...own, ...used]
    .filter((one) => isMasked(one) && !secrets.has(one.key))
    .map(({ key }) => key)
  const filled = {
    ...monitor,
    environmentVariables: own.map((one) => withValue(one, secrets)),
  } as Monitor
  if (lacking.length > 0) {
    const [name] = lacking
    const what = `no value for ${lacking.join(', ')}, which the platform does not show`
    return { monitor: filled, lacks: `${what}; set ${name} or ${name}_FILE in the environment` }
  }
  const hidden = maskedFields(filled, [])
  if (hidden.length === 0) return { monitor: filled }
  return { monitor: filled, lacks: `the platform does not show ${hidden.join(', ')}` }
}

/** Paths of further values that are kept, such as a password of the request. */
function maskedFields(value: unknown, path: readonly string[]): string[] {
  if (value === SECRET_MASK) return [path.join('.')]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => maskedFields(inner, [...path, key]))
}
