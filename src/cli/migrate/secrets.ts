// Secret values for monitors of a platform that run here. The platform shows none, so they are read from the
// environment, under their own names.
import { SECRET_MASK } from '../../contract/api/resource.ts'
import type { Monitor, Variable } from '../../contract/monitor.ts'
import type { Environment } from '../../process/env.ts'
import { secretValue } from '../../agent/monitors-file/variables.ts'

/** Whether the platform masks the value. */
export const isMasked = ({ secret, value }: Variable) => secret && value === SECRET_MASK

/** Values of the secret variables that the environment has as `NAME` or `NAME_FILE`. */
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

/** The variable with its value for the run. */
export function withValue(one: Variable, secrets: ReadonlyMap<string, string>): Variable {
  const { key, locked, secret, value } = one
  return { key, locked, secret, value: isMasked(one) ? (secrets.get(key) ?? '') : value }
}

/**
 * The monitor with the values of its secrets, and a sentence on missing values: of its own secrets, and of those of
 * the account that its definition mentions.
 */
export function fillSecrets(
  monitor: Monitor,
  { account, secrets }: { account: readonly Variable[]; secrets: ReadonlyMap<string, string> },
): { monitor: Monitor; missing?: string } {
  const own = monitor.environmentVariables
  const known = new Set(own.map(({ key }) => key))
  const mentioned = new Set(JSON.stringify(monitor).match(/[A-Za-z_]\w*/g))
  const used = account.filter(({ key }) => !known.has(key) && mentioned.has(key))
  const missingKeys = [...own, ...used]
    .filter((one) => isMasked(one) && !secrets.has(one.key))
    .map(({ key }) => key)
  const filled = {
    ...monitor,
    environmentVariables: own.map((one) => withValue(one, secrets)),
  } as Monitor
  if (missingKeys.length > 0) {
    const [name] = missingKeys
    const what = `no value for ${missingKeys.join(', ')}, which the platform does not show`
    return { monitor: filled, missing: `${what}; set ${name} or ${name}_FILE in the environment` }
  }
  const hidden = maskedFields(filled, [])
  if (hidden.length === 0) return { monitor: filled }
  return { monitor: filled, missing: `the platform does not show ${hidden.join(', ')}` }
}

/** Paths of other masked values, such as a password of the request. */
function maskedFields(value: unknown, path: readonly string[]): string[] {
  if (value === SECRET_MASK) return [path.join('.')]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => maskedFields(inner, [...path, key]))
}
