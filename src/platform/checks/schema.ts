// Monitors as the public API reads and writes them: /v1/checks. The definition of each type is that of
// monitors/definitions.ts; this file has the further fields of requests and answers.
import * as z from 'zod'
import { READ_ONLY, SECRET_MASK, timestamps } from '../../contract/api/resource.ts'
import {
  CHECK_TYPES,
  DEFINED_TYPES,
  type DefinedType,
  definitionOf,
} from '../../monitors/definitions.ts'
import { CheckGroup } from '../../contract/api/check-group.ts'
import { commonFields } from '../../contract/monitor.ts'

const { id: _, ...fields } = commonFields

/** A monitor in the API: its definition, and the fields that the platform adds. */
export const Check = z
  .looseObject({
    ...fields,
    id: z.guid().meta({ format: 'uuid' }),
    checkType: z.enum(CHECK_TYPES),
    ...timestamps,
  })
  .meta({
    id: 'Check',
    description: `What was written, with defaults; the fields of the type as in its own input. Secret values read as \`${SECRET_MASK}\`.`,
  })

/** The body that makes or replaces a monitor, by its type, for the document. */
export const CHECK_INPUTS: ReadonlyMap<DefinedType, z.ZodType> = new Map(
  DEFINED_TYPES.map((checkType) => [checkType, checkInput(checkType)]),
)

function checkInput(checkType: DefinedType): z.ZodType {
  const { path, schema, example } = definitionOf(checkType)
  const { id: _id, ...shape } = schema.shape
  // A heartbeat is watched by the platform itself.
  const place = checkType === 'HEARTBEAT' ? {} : { privateLocations: ['data-center'] }
  return z
    .strictObject({
      ...shape,
      checkType: z.literal(checkType).optional(),
      ...READ_ONLY,
    })
    .meta({
      id: `${path[0]?.toUpperCase()}${path.slice(1)}CheckInput`,
      example: { name: 'Shop', ...place, ...example },
    })
}

/** The body that replaces a monitor whose type the platform knows, for the document. */
export const AnyCheckInput = z
  .union([...CHECK_INPUTS.values()])
  .meta({ id: 'CheckInput', description: 'The input of the type that the check has' })

/** Some fields of a monitor or group. */
export const CheckFields = z.record(z.string(), z.unknown()).meta({
  id: 'CheckFields',
  description: 'Fields of the monitor, as in the input of its type',
  example: { name: 'Shop', muted: true },
})

/** The body that makes or replaces a group, for the document. */
export const CheckGroupInput = z.strictObject({ ...CheckGroup.shape, ...READ_ONLY }).meta({
  id: 'CheckGroupInput',
  example: { name: 'Shop', privateLocations: ['data-center'], tags: ['shop'] },
})

export const CheckGroupRead = z
  .object({ ...CheckGroup.shape, id: z.int(), ...timestamps })
  .meta({ id: 'CheckGroup' })
