// Secret values in definitions: masked in answers, and left unchanged where a client sends the mask back.
import { SECRET_MASK } from '../../contract/api/resource.ts'
import type { Definition } from './encrypted-monitor.ts'

/** Secret fields, by the object that contains them. */
const SECRET_FIELDS: ReadonlyMap<string, readonly string[]> = new Map([
  ['basicAuth', ['password']],
  ['tls', ['privateKey', 'passphrase']],
])

/** The definition with a mask in place of every secret value that is not empty. */
export function maskSecrets(definition: Readonly<Definition>): Definition {
  return walk(definition, undefined, '', {
    secret: (value) => (value === '' ? '' : SECRET_MASK),
    problems: [],
  }) as Definition
}

/** A definition without masks, and the places of masks without a stored value. */
export interface Unmasked {
  definition: Definition
  problems: { path: string[]; message: string }[]
}

/** Replaces each mask by the stored value of the same secret. */
export function unmaskSecrets(
  definition: Readonly<Definition>,
  stored: Readonly<Definition> | undefined,
): Unmasked {
  const problems: Unmasked['problems'] = []
  const secret = (value: string, path: string, was: unknown): string => {
    if (value !== SECRET_MASK) return value
    if (typeof was === 'string') return was
    problems.push({
      path: path.split('.').slice(1),
      message: `${SECRET_MASK} stands for a stored value, and there is none; give the value`,
    })
    return value
  }
  return { definition: walk(definition, stored, '', { secret, problems }) as Definition, problems }
}

interface Walk {
  /** The value to put in the place of a secret one. */
  secret(value: string, path: string, was: unknown): string
  problems: Unmasked['problems']
}

function walk(value: unknown, was: unknown, path: string, how: Walk): unknown {
  if (Array.isArray(value)) {
    const before: unknown[] = Array.isArray(was) ? was : []
    return value.map((item, index) => {
      const key = keyOf(item)
      const same = key === undefined ? before[index] : before.find((one) => keyOf(one) === key)
      return walk(item, same, `${path}.${key ?? index}`, how)
    })
  }
  if (typeof value !== 'object' || value === null) return value
  const before = (typeof was === 'object' && was !== null ? was : {}) as Definition
  const fields = value as Definition
  const hidden = hiddenFields(fields, path)
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => {
      const place = `${path}.${name}`
      if (!hidden.includes(name) || typeof field !== 'string') {
        refuseReveal(fields, before, place, name, how)
        return [name, walk(field, before[name], place, how)]
      }
      return [name, how.secret(field, place, before[name])]
    }),
  )
}

/** A mask in a variable that is no longer secret would reveal the stored value, or lose it. */
function refuseReveal(
  fields: Definition,
  before: Definition,
  place: string,
  name: string,
  how: Walk,
): void {
  const reveals = name === 'value' && fields[name] === SECRET_MASK && before['secret'] === true
  if (!reveals) return
  how.problems.push({
    path: place.split('.').slice(1),
    message: 'a secret variable becomes a plain one only together with its value',
  })
}

function hiddenFields(fields: Definition, path: string): readonly string[] {
  if (fields['secret'] === true) return ['value']
  return SECRET_FIELDS.get(path.slice(path.lastIndexOf('.') + 1)) ?? []
}

/** The key that identifies a variable among others. */
function keyOf(item: unknown): string | undefined {
  if (typeof item !== 'object' || item === null) return undefined
  const key = (item as Definition)['key']
  return typeof key === 'string' ? key : undefined
}
