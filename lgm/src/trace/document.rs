//! From JSON to tables, with the place of each fault.

use std::fmt;
use std::io::{BufReader, Read};

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess};
use vtensor::{Bytes, TensorKind, limits};

use super::durations::Durations;
use super::model::{KIND_NAMES, List, Op, Phase, Span, Tables, Tensor, Trace};
use super::object::{self, ListSeed, Name, Object, ObjectSeed, Word};
use super::source::{Source, unwrap_fault};
use super::{TraceError, replay};

/// The version of the format.
pub(super) const SCHEMA: u64 = 1;

/// Reads a trace, plain or gzip'ed; which one, the first bytes tell. The input is read to its end.
///
/// # Errors
/// If the input is no trace, is damaged, contradicts itself or exceeds [`limits`]; the message
/// names the place.
pub fn read(input: impl Read) -> Result<Trace, TraceError> {
    read_at_most(input, limits::TRACE_BYTES_MAX)
}

/// As [`read`], with a limit of its own on the bytes of the unpacked document.
#[doc(hidden)]
pub fn read_at_most(input: impl Read, bytes_max: u64) -> Result<Trace, TraceError> {
    let mut source = BufReader::with_capacity(1 << 16, Source::new(input, bytes_max)?);
    let mut reader = Reader::default();
    let mut json = serde_json::Deserializer::from_reader(&mut source);
    let result = ObjectSeed(Document(&mut reader)).deserialize(&mut json);
    if let Err(error) = result.and_then(|()| json.end()) {
        return Err(locate(error, &reader));
    }
    let digest = source.into_inner().digest();
    let mut tables = reader.tables;
    let totals = replay::check(&mut tables)?;
    Ok(Trace {
        tables,
        digest,
        totals,
    })
}

fn locate(error: serde_json::Error, reader: &Reader) -> TraceError {
    if error.is_io() {
        return unwrap_fault(error.into());
    }
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let suffix = format!(" at line {line} column {column}");
    let message = text.strip_suffix(&suffix).unwrap_or(&text).into();
    let mut place = reader.place.to_string();
    if let ("ops", Some(index)) = (reader.place.part, reader.place.index)
        && let Some(op) = reader.tables.ops.get(index)
        && !op.name.is_empty()
    {
        place = format!("{place} ({})", op.name);
    }
    TraceError::Document {
        line,
        column,
        place,
        message,
    }
}

/// Where the reader is.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    part: &'static str,
    index: Option<usize>,
    key: Option<&'static str>,
    element: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.part.is_empty() {
            return f.write_str("the document");
        }
        f.write_str(self.part)?;
        if let Some(index) = self.index {
            write!(f, "[{index}]")?;
        }
        if let Some(key) = self.key {
            write!(f, ".{key}")?;
        }
        if let Some(element) = self.element {
            write!(f, "[{element}]")?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Reader {
    tables: Tables,
    place: Place,
    /// Reads and writes; allocs; frees; views.
    ids_seen: [usize; 4],
}

struct Document<'a>(&'a mut Reader);

impl<'de> Object<'de> for Document<'_> {
    const WHAT: &'static str = "a trace";
    const REQUIRED: &'static [&'static str] = &["header", "tensors", "ops"];

    fn at(&mut self, key: Option<&'static str>) {
        self.0.place = Place {
            part: key.unwrap_or_default(),
            ..Place::default()
        };
    }

    fn value<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "header" => map.next_value_seed(ObjectSeed(Header(self.0))),
            "tensors" => map.next_value_seed(ListSeed(Tensors(self.0))),
            "ops" => map.next_value_seed(ListSeed(Ops(self.0))),
            _ => unreachable!("only the keys above"),
        }
    }
}

struct Header<'a>(&'a mut Reader);

impl<'de> Object<'de> for Header<'_> {
    const WHAT: &'static str = "the header";
    const REQUIRED: &'static [&'static str] = &["schema", "model", "batch", "optimizer"];

    fn at(&mut self, key: Option<&'static str>) {
        self.0.place.key = key;
    }

    fn value<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let tables = &mut self.0.tables;
        match key {
            "schema" => {
                let schema: u64 = map.next_value()?;
                if schema != SCHEMA {
                    return Err(A::Error::custom(format!(
                        "schema {schema} is unknown; this version reads schema {SCHEMA}"
                    )));
                }
            }
            "model" => tables.model = map.next_value_seed(Name)?,
            "batch" => tables.batch = map.next_value()?,
            "optimizer" => tables.optimizer = map.next_value_seed(Name)?,
            _ => unreachable!("only the keys above"),
        }
        Ok(())
    }
}

struct Tensors<'a>(&'a mut Reader);

impl<'de> object::List<'de> for Tensors<'_> {
    const WHAT: &'static str = "a list of tensors";

    fn element<A: SeqAccess<'de>>(&mut self, index: usize, list: &mut A) -> Result<bool, A::Error> {
        self.0.place.index = Some(index);
        let seed = ObjectSeed(TensorObject(self.0, index));
        let more = list.next_element_seed(seed)?.is_some();
        if !more {
            self.0.place.index = None;
        }
        Ok(more)
    }
}

struct TensorObject<'a>(&'a mut Reader, usize);

impl<'de> Object<'de> for TensorObject<'_> {
    const WHAT: &'static str = "a tensor";
    const REQUIRED: &'static [&'static str] = &["id", "bytes", "kind"];
    const OPTIONAL: &'static [&'static str] = &["persistent", "fixed", "name"];

    fn at(&mut self, key: Option<&'static str>) {
        self.0.place.key = key;
        let tensors = &mut self.0.tables.tensors;
        // The row begins with the first key. An object without any is refused for what it lacks.
        if tensors.len() == self.1 {
            tensors.push(Tensor {
                name: String::new(),
                bytes: Bytes(0),
                kind: TensorKind::Activation,
                persistent: false,
                fixed: false,
            });
        }
    }

    fn value<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        check_rows(self.1, limits::TENSORS_MAX).map_err(A::Error::custom)?;
        let tensor = &mut self.0.tables.tensors[self.1];
        match key {
            "id" => {
                let id: u64 = map.next_value()?;
                if id != self.1 as u64 {
                    return Err(A::Error::custom(format!(
                        "id {id} where {} is due: ids count from 0 in order",
                        self.1
                    )));
                }
            }
            "bytes" => {
                tensor.bytes = Bytes(map.next_value()?);
                if tensor.bytes.0 > limits::TENSOR_BYTES_MAX {
                    return Err(A::Error::custom(format!(
                        "a tensor of {} is larger than the {} that are accepted",
                        tensor.bytes,
                        Bytes(limits::TENSOR_BYTES_MAX)
                    )));
                }
            }
            "kind" => tensor.kind = map.next_value_seed(Word(&KIND_NAMES))?,
            "persistent" => tensor.persistent = map.next_value()?,
            "fixed" => tensor.fixed = map.next_value()?,
            "name" => tensor.name = map.next_value_seed(Name)?,
            _ => unreachable!("only the keys above"),
        }
        Ok(())
    }
}

fn check_rows(index: usize, max: usize) -> Result<(), String> {
    if index < max {
        return Ok(());
    }
    Err(format!(
        "the list is longer than the {max} elements that are accepted"
    ))
}

struct Ops<'a>(&'a mut Reader);

impl<'de> object::List<'de> for Ops<'_> {
    const WHAT: &'static str = "a list of ops";

    fn element<A: SeqAccess<'de>>(&mut self, index: usize, list: &mut A) -> Result<bool, A::Error> {
        self.0.place.index = Some(index);
        let more = list.next_element_seed(ObjectSeed(OpObject(self.0, index)))?;
        if more.is_none() {
            self.0.place.index = None;
        }
        Ok(more.is_some())
    }
}

struct OpObject<'a>(&'a mut Reader, usize);

impl<'de> Object<'de> for OpObject<'_> {
    const WHAT: &'static str = "an op";
    const REQUIRED: &'static [&'static str] =
        &["name", "ph", "reads", "writes", "allocs", "frees", "dur_us"];
    const OPTIONAL: &'static [&'static str] = &["view", "views", "flops", "bytes", "replayable"];

    fn at(&mut self, key: Option<&'static str>) {
        self.0.place.key = key;
        let ops = &mut self.0.tables.ops;
        if ops.len() == self.1 {
            ops.push(Op {
                name: String::new(),
                phase: Phase::Load,
                view: false,
                flops: 0,
                moved: Bytes(0),
                replayable: None,
                lists: [Span::default(); 5],
            });
        }
    }

    fn value<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        check_rows(self.1, limits::OPS_MAX).map_err(A::Error::custom)?;
        if let Some(list) = List::ALL.into_iter().find(|list| list.key() == key) {
            return self.list(list, map);
        }
        let op = &mut self.0.tables.ops[self.1];
        match key {
            "name" => op.name = map.next_value_seed(Name)?,
            "ph" => op.phase = map.next_value_seed(Word(&Phase::NAMES))?,
            "view" => op.view = map.next_value()?,
            "flops" => op.flops = map.next_value()?,
            "bytes" => op.moved = Bytes(map.next_value()?),
            "replayable" => op.replayable = Some(map.next_value()?),
            "dur_us" => map.next_value_seed(Durations(&mut self.0.tables, self.1))?,
            _ => unreachable!("only the keys above"),
        }
        Ok(())
    }
}

impl OpObject<'_> {
    fn list<'de, A: MapAccess<'de>>(&mut self, list: List, map: &mut A) -> Result<(), A::Error> {
        let row = |ids: usize| u32::try_from(ids).expect("five lists of 2^24 ids each fit");
        let first = self.0.tables.ids.len();
        map.next_value_seed(ListSeed(Ids(self.0, list)))?;
        let tables = &mut self.0.tables;
        tables.ops[self.1].lists[list as usize] = Span {
            first: row(first),
            count: row(tables.ids.len() - first),
        };
        Ok(())
    }
}

struct Ids<'a>(&'a mut Reader, List);

impl<'de> object::List<'de> for Ids<'_> {
    const WHAT: &'static str = "a list of tensor ids";

    fn element<A: SeqAccess<'de>>(&mut self, index: usize, list: &mut A) -> Result<bool, A::Error> {
        self.0.place.element = Some(index);
        let Some(id) = list.next_element::<u64>()? else {
            self.0.place.element = None;
            return Ok(false);
        };
        let id = u32::try_from(id)
            .map_err(|_| A::Error::custom(format!("tensor {id} is beyond all that can exist")))?;
        let seen = &mut self.0.ids_seen[match self.1 {
            List::Reads | List::Writes => 0,
            List::Allocs => 1,
            List::Frees => 2,
            List::Views => 3,
        }];
        check_rows(*seen, limits::ACCESSES_MAX).map_err(A::Error::custom)?;
        *seen += 1;
        self.0.tables.ids.push(id);
        Ok(true)
    }
}
