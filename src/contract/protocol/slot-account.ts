// Account of slots as the public API shows it: expected and recorded slots.
import * as z from 'zod'
import { VERDICTS } from '../result.ts'

const count = z.int()
const dateTime = z.string().meta({ format: 'date-time' })

const counted = {
  expected: count.meta({ description: 'Slots that were due, from the timing of the monitors' }),
  recorded: count.meta({ description: 'Slots of these that have their row' }),
  missing: count.meta({ description: 'expected − recorded; anything but 0 is a fault' }),
  unexpected: count.meta({ description: 'Rows of no slot; anything but 0 is a fault' }),
  byVerdict: z.record(z.enum(VERDICTS), count),
  byReason: z.record(z.string(), count).meta({ description: 'The missed ones by their reason' }),
}

/** The answer to GET /v1/accounting. */
export const SlotAccount = z
  .object({
    from: dateTime.meta({ description: 'Where what is accounted for begins' }),
    to: dateTime.meta({ description: 'Where it ends: at most where the last sweep came to' }),
    complete: z.boolean().meta({ description: 'Nothing is missing and nothing unexpected' }),
    ...counted,
    locations: z.array(
      z.object({
        id: z.guid().meta({ format: 'uuid' }),
        slugName: z.string(),
        ...counted,
      }),
    ),
  })
  .meta({ id: 'SlotAccount' })
export type SlotAccount = z.infer<typeof SlotAccount>
