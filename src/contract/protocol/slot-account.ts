// Account of slots as the public API shows it: expected and recorded slots.
import * as z from 'zod'
import { VERDICTS } from '../result.ts'

const count = z.int()
const dateTime = z.string().meta({ format: 'date-time' })

const counted = {
  expected: count.meta({ description: 'Slots that were due, from the timing of the monitors' }),
  recorded: count.meta({ description: 'These slots with a row' }),
  missing: count.meta({ description: 'expected − recorded; anything but 0 is a fault' }),
  unexpected: count.meta({ description: 'Rows without a slot; anything but 0 is a fault' }),
  byVerdict: z.record(z.enum(VERDICTS), count),
  byReason: z.record(z.string(), count).meta({ description: 'Missed slots by reason' }),
}

/** The answer to GET /v1/accounting. */
export const SlotAccount = z
  .object({
    from: dateTime.meta({ description: 'Start of the span' }),
    to: dateTime.meta({ description: 'End of the span: at most the end of the last sweep' }),
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
